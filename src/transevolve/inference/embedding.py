"""One vector per text: the mean of the encoder's output over tokens, weighted as in the pooling of its head."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from torch import Tensor
from transformers import PreTrainedModel

from ..data.batching import Collator, RowStore
from ..kinds.session import Session
from ..models.inputs import key_padding_mask, padding_mask
from ..models.pooling import masked_mean, weighted_mean


def embeddings(session: Session, texts: Sequence[str], where: Callable[[int], str]) -> np.ndarray:
    """Vectors (texts x width, float32); `where(i)` is the location of text i, for error messages."""
    if not texts:
        return np.zeros((0, session.model.config.hidden_size), dtype=np.float32)
    rows = RowStore({"input_ids": session.encode(texts, where).rows()})
    found = np.zeros((len(texts), session.model.config.hidden_size), dtype=np.float32)
    with session.inference():
        for numbers, batch in session.batches(rows, Collator(session.pad)):
            vectors = text_vectors(session.model, batch["input_ids"], batch["attention_mask"])
            found[numbers] = vectors.float().cpu().numpy()
            session.advance(len(numbers))
    return found


def text_vectors(model: PreTrainedModel, ids: Tensor, mask: Tensor) -> Tensor:
    """The mean of the token vectors of each row."""
    ours: Any = model
    if model.config.is_encoder_decoder:
        x = ours.get_encoder()(input_ids=ids, attention_mask=mask).last_hidden_state
        return masked_mean(x, padding_mask(mask, ids.shape))
    x = ours.encode(ids, mask, None, None, None, None).last_hidden_state
    ignored = key_padding_mask(ours.get_input_embeddings(), ids, mask, ids.shape)
    weights = getattr(getattr(ours, "head", None), "token_weight", None)
    return masked_mean(x, ignored) if weights is None else weighted_mean(x, weights[ids], ignored)
