"""A translator as two graphs: the encoder, run once, and one step of the decoder with its evolved cache.

The cache has keys once per block, and drift and values per depth. For the source, it has keys and drift once per block,
and one normalized copy of the encoder's output as the values of every depth.
"""

import copy
from collections.abc import Iterable
from typing import cast

import torch
from torch import Tensor, nn

from ..core.errors import UserError
from ..evolution.attention import EvolvedAttention
from ..evolution.block import DecoderBlock, DecoderDepth, normalize_without_affine
from ..evolution.feedforward import RotationLinear
from ..evolution.initial import drift_directions, merge_heads, split_heads
from ..models.embedding import add_positions
from ..models.heads.seq2seq import TransEvolveForConditionalGeneration

MAX_BEAMS = 16


def prepare(model: TransEvolveForConditionalGeneration) -> TransEvolveForConditionalGeneration:
    """Returns a copy to export: rotations are folded into matrices, and attention uses the `literal` backend."""
    if not model.config.backend().exact:
        raise UserError(f"attention {model.config.attention!r} cannot be exported with a cache: use an exact backend")
    model = copy.deepcopy(model).eval().requires_grad_(False)
    for module in list(model.modules()):
        if isinstance(module, EvolvedAttention):
            module.backend = "literal"
        for name, child in list(module.named_children()):
            if isinstance(child, RotationLinear):
                setattr(module, name, _folded(child))
    return model


def _folded(rotation: RotationLinear) -> nn.Linear:
    linear = nn.Linear(rotation.inputs, rotation.outputs)
    linear.weight = nn.Parameter(rotation.weight().mT.detach().contiguous(), requires_grad=False)
    linear.bias = nn.Parameter(rotation.bias.detach(), requires_grad=False)
    return linear


def blocks_of(model: TransEvolveForConditionalGeneration) -> list[DecoderBlock]:
    return [cast(DecoderBlock, block) for block in model.decoder.blocks]


def directions(attention: EvolvedAttention) -> Tensor:
    """Returns u^l_h of b^l[h, j] = K_j . u^l_h, one row per depth and head; no rows if attention does not evolve."""
    temporal = attention.temporal()
    if temporal is None:
        return torch.zeros(0, 2 * attention.hidden_size)
    return drift_directions(temporal.query, temporal.depth).flatten(0, 1).detach()


class SourceGraph(nn.Module):
    """From ids and mask to values (sentences x heads x k x part), and per block keys (sentences x heads x part x k) and
    bias (sentences x heads x depths x 1 x k): the drift, or a large negative number at padding."""

    def __init__(self, model: TransEvolveForConditionalGeneration):
        super().__init__()
        self.encoder, self.blocks = model.encoder, model.decoder.blocks
        self.heads, self.eps = model.config.num_attention_heads, model.decoder.options.resolved_eps
        for b, block in enumerate(blocks_of(model)):
            self.register_buffer(f"directions_{b}", directions(block.cross_attention))

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, ...]:
        memory = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        found = [split_heads(normalize_without_affine(memory, self.eps), self.heads)]
        padding = (attention_mask == 0)[:, None, None, None]
        for b, block in enumerate(self.blocks):
            attention = cast(DecoderBlock, block).cross_attention
            keys = attention.key(memory)
            rows = getattr(self, f"directions_{b}")
            if len(rows):
                bias = (keys @ rows.mT).unflatten(-1, (attention.depth, self.heads)).permute(0, 3, 2, 1)[..., None, :]
            else:
                bias = torch.zeros_like(keys[:, None, None, None, :, 0])
            bias = bias.masked_fill(padding, torch.finfo(bias.dtype).min / 2)
            found += [split_heads(keys, self.heads).mT, bias]
        return tuple(found)


class StepGraph(nn.Module):
    """From one token per beam to the best next tokens of each beam and the extended past.

    `tokens` is sentences x beams, `position` the number of tokens before them, `visible` a mask of the slots that each
    beam sees, the new ones last. `source` is the output of `SourceGraph`. `past` has for each block keys
    (sentences x heads x part x slots), drift if attention evolves (sentences x depths x heads x slots), and the values
    of each depth (sentences x heads x slots x part).
    """

    def __init__(self, model: TransEvolveForConditionalGeneration):
        super().__init__()
        self.embedding, self.blocks, self.lm_head = model.encoder.embedding, model.decoder.blocks, model.lm_head
        self.heads, self.width = model.config.num_attention_heads, model.config.hidden_size
        self.best = min(2 * MAX_BEAMS, model.config.vocab_size)
        for b, block in enumerate(blocks_of(model)):
            self.register_buffer(f"directions_{b}", directions(block.self_attention))

    def past(self) -> list[tuple[str, list[int | str]]]:
        """Returns the name and shape of each tensor of the past."""
        named: list[tuple[str, list[int | str]]] = []
        part = self.width // self.heads
        for b, block in enumerate(self.blocks):
            depth = cast(DecoderBlock, block).self_attention.depth
            named.append((f"past_keys_{b}", ["sentences", self.heads, 2 * part, "slots"]))
            if len(getattr(self, f"directions_{b}")):
                named.append((f"past_drift_{b}", ["sentences", depth, self.heads, "slots"]))
            named += [(f"past_values_{b}_{l + 1}", ["sentences", self.heads, "slots", part]) for l in range(depth)]
        return named

    def forward(
        self, tokens: Tensor, position: Tensor, visible: Tensor, source: list[Tensor], past: list[Tensor]
    ) -> tuple[Tensor, ...]:
        x = add_positions(self.embedding(tokens), position, self.embedding.position_scale)
        present: list[Tensor] = []
        rest = iter(past)
        for b, block in enumerate(self.blocks):
            rows = getattr(self, f"directions_{b}")
            prepared = (source[0], source[1 + 2 * b], source[2 + 2 * b])
            x = self._block(cast(DecoderBlock, block), rows, x, visible[:, None], prepared, rest, present)
        logits = self.lm_head(x)
        best, ids = logits.topk(self.best)
        return best - logits.logsumexp(-1, keepdim=True), ids, *present

    def _block(
        self,
        block: DecoderBlock,
        rows: Tensor,
        x: Tensor,
        visible: Tensor,
        source: tuple[Tensor, Tensor, Tensor],
        past: Iterable[Tensor],
        present: list[Tensor],
    ) -> Tensor:
        past = iter(past)
        attention, cross = block.self_attention, block.cross_attention
        new = attention.key(x)
        keys = torch.cat([next(past), split_heads(new, self.heads).mT], -1)
        present.append(keys)
        scores = split_heads(attention.query(x) * attention.scale, self.heads) @ keys
        scores = scores.masked_fill(~visible, torch.finfo(scores.dtype).min)
        drift = None
        if len(rows):
            drift = (new @ rows.mT).unflatten(-1, (attention.depth, self.heads)).permute(0, 2, 3, 1)
            drift = torch.cat([next(past), drift], -1)
            present.append(drift)
        mixed = self._cross(cross, x, *source)
        for depth in cast(Iterable[DecoderDepth], block.depths):
            l = depth.l
            values = torch.cat([next(past), split_heads(depth.value_norm(x), self.heads)], 2)
            present.append(values)
            weights = (scores if drift is None else scores + drift[:, l - 1, :, None]).softmax(-1)
            h = x + attention.output[l - 1](merge_heads(weights @ values))
            at = merge_heads(mixed[:, :, min(l, mixed.shape[2]) - 1])
            x = depth(h + cross.output[l - 1](depth.memory_norm(at, None)))
        return block.norm(x)

    def _cross(self, attention: EvolvedAttention, x: Tensor, values: Tensor, keys: Tensor, bias: Tensor) -> Tensor:
        """Returns cross-attention at every depth: sentences x heads x depths x beams x part."""
        scores = split_heads(attention.query(x) * attention.scale, self.heads) @ keys
        weights = (scores[:, :, None] + bias).softmax(-1)
        return (weights.flatten(2, 3) @ values).unflatten(2, (weights.shape[2], weights.shape[3]))


def step_sample(step: StepGraph, source: list[Tensor], beams: int = 3, length: int = 4) -> tuple:
    """Returns example arguments of a step after `length` tokens of each sentence."""
    sentences = source[0].shape[0]
    sizes = {"sentences": sentences, "slots": beams * length}
    past = [torch.randn([sizes[n] if isinstance(n, str) else n for n in shape]) for _, shape in step.past()]
    visible = torch.ones(sentences, beams, beams * (length + 1), dtype=torch.bool)
    return torch.ones(sentences, beams, dtype=torch.long), torch.tensor([length]), visible, source, past


def step_shapes(step: StepGraph, source: list[Tensor]) -> dict:
    """Returns the dynamic dimensions of a step: sentences, beams, source tokens, slots."""
    auto = torch.export.Dim.AUTO
    sources = [{0: auto, 2: auto}, *({0: auto, tensor.ndim - 1: auto} for tensor in source[1:])]
    past = [{0: auto, shape.index("slots"): auto} for _, shape in step.past()]
    return {
        "tokens": {0: auto, 1: auto},
        "position": {},
        "visible": {0: auto, 1: auto, 2: auto},
        "source": sources,
        "past": past,
    }
