"""Tokenizers that encode two texts as one sequence with a separator."""

from collections.abc import Sequence

from tokenizers import processors
from transformers import PreTrainedTokenizerFast

from ..core.errors import UserError
from .stored import text_column
from .tokenizers import SEP
from .wide_rows import TAB


def is_paired(tokenizer: PreTrainedTokenizerFast) -> bool:
    return bool(tokenizer.init_kwargs.get("pairs"))


def single_texts(texts: Sequence[str], pairs: bool) -> Sequence[str]:
    """The single texts of pairs, for learning a tokenizer."""
    return text_column(part for text in texts for part in text.split(TAB)) if pairs else texts


def separator_id(tokenizer: PreTrainedTokenizerFast) -> int | None:
    """The token between the two texts of a pair; None if there is none."""
    encoding = tokenizer.backend_tokenizer.encode("a", "a")
    last = max(position for position, sequence in enumerate(encoding.sequence_ids) if sequence == 0)
    return encoding.ids[last + 1] if encoding.sequence_ids[last + 1] is None else None


def pair_tokenizer(tokenizer: PreTrainedTokenizerFast) -> None:
    """Make the tokenizer encode pairs. If it has no separator, use its end token, or else [SEP]."""
    backend = tokenizer.backend_tokenizer
    alone = backend.encode("a")
    if not alone.ids:
        raise UserError("this tokenizer cannot join pairs of texts: choose another data.tokenizer")
    tokenizer.init_kwargs["pairs"] = True
    if separator_id(tokenizer) is not None:
        return
    real = [position for position, special in enumerate(alone.special_tokens_mask) if not special]
    before, after = alone.tokens[: real[0]], alone.tokens[real[-1] + 1 :]
    if not after:
        tokenizer.add_special_tokens({"sep_token": SEP})
    between = after or [SEP]
    backend.post_processor = processors.TemplateProcessing(
        single=[*before, "$A", *after],
        pair=[*before, "$A", *between, "$B:1", *(f"{token}:1" for token in after)],
        special_tokens=[(token, backend.token_to_id(token)) for token in {*before, *after, *between}],
    )
