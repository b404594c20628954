"""Checked inputs of a model: token ids, masks, embeddings and positions."""

import torch
from torch import Tensor

from .embedding import TokenEmbedding, add_positions


def checked_ids(input_ids: Tensor, vocab_size: int, name: str = "input_ids") -> Tensor:
    if input_ids.ndim != 2:
        raise ValueError(f"{name} must be (batch, length), got shape {tuple(input_ids.shape)}")
    if input_ids.is_floating_point() or input_ids.dtype == torch.bool:
        raise TypeError(f"{name} must be integers, got {input_ids.dtype}")
    if _can_read(input_ids) and input_ids.numel():
        low, high = (int(v) for v in input_ids.aminmax())
        if low < 0 or high >= vocab_size:
            wrong = low if low < 0 else high
            raise ValueError(f"{name} contains {wrong}, outside the vocabulary 0..{vocab_size - 1}")
    return input_ids


def padding_mask(attention_mask: Tensor | None, shape: tuple[int, ...], name: str = "attention_mask") -> Tensor | None:
    """Hugging Face's mask (1 = real) as a key padding mask (True = ignore)."""
    if attention_mask is None:
        return None
    if tuple(attention_mask.shape) != tuple(shape):
        raise ValueError(f"{name} must have shape {tuple(shape)} like its tokens, got {tuple(attention_mask.shape)}")
    if _can_read(attention_mask) and attention_mask.dtype != torch.bool:
        wrong = attention_mask[(attention_mask != 0) & (attention_mask != 1)]
        if wrong.numel():
            raise ValueError(f"{name} must contain only 0 and 1 (1 = real), found {wrong[0].item()}")
    return attention_mask == 0


def embed(
    embedding: TokenEmbedding,
    input_ids: Tensor | None,
    inputs_embeds: Tensor | None,
    start: int = 0,
    prefix: str = "",
    position_ids: Tensor | None = None,
) -> Tensor:
    """Token vectors with positions, from ids or from embeddings (scaled as `embedding` scales them)."""
    if (input_ids is None) == (inputs_embeds is None):
        raise ValueError(f"pass exactly one of {prefix}input_ids and {prefix}inputs_embeds")
    if input_ids is not None:
        inputs_embeds = embedding(checked_ids(input_ids, embedding.num_embeddings, f"{prefix}input_ids"))
    assert inputs_embeds is not None
    if inputs_embeds.ndim != 3 or inputs_embeds.shape[-1] != embedding.embedding_dim:
        raise ValueError(
            f"{prefix}inputs_embeds must be (batch, length, {embedding.embedding_dim}),"
            f" got {tuple(inputs_embeds.shape)}"
        )
    if inputs_embeds.shape[1] == 0:
        raise ValueError(f"{prefix}input is empty: a sequence needs at least one token")
    if position_ids is None:
        positions = torch.arange(start, start + inputs_embeds.shape[1], device=inputs_embeds.device)
    else:
        positions = checked_positions(position_ids, (inputs_embeds.shape[0], inputs_embeds.shape[1]), prefix)
    return add_positions(inputs_embeds, positions, embedding.position_scale)


def key_padding_mask(
    embedding: TokenEmbedding,
    input_ids: Tensor | None,
    attention_mask: Tensor | None,
    shape: tuple[int, ...],
    start: int = 0,
) -> Tensor | None:
    """True at tokens to ignore: padding, and tokens that the embedding has not seen in training.

    `shape` is that of the attention mask, which also covers the `start` tokens before `input_ids`.
    """
    padding = padding_mask(attention_mask, shape)
    padding = None if padding is None else padding[:, start:]
    if embedding.seen is None or input_ids is None:
        return padding
    unseen = ~embedding.seen[input_ids]
    return unseen if padding is None else padding | unseen


def checked_positions(position_ids: Tensor, shape: tuple[int, int], prefix: str = "") -> Tensor:
    """Positions of each token, (batch, length) or one row for all."""
    if position_ids.ndim != 2 or position_ids.shape[0] not in (1, shape[0]) or position_ids.shape[1] != shape[1]:
        raise ValueError(f"{prefix}position_ids must have shape {shape}, got {tuple(position_ids.shape)}")
    return position_ids


def shift_right(labels: Tensor, pad: int, start: int) -> Tensor:
    """Labels as decoder input: shifted right behind the start token, with -100 replaced by padding."""
    shifted = torch.cat([labels.new_full((labels.shape[0], 1), start), labels[:, :-1]], dim=1)
    return shifted.masked_fill(shifted == -100, pad)


def _can_read(tensor: Tensor) -> bool:
    """Whether values can be checked: reading them stalls an accelerator and cannot be traced."""
    return tensor.device.type == "cpu" and not torch.compiler.is_compiling()
