"""Decoding speed of TransEvolve and a Marian Transformer of the same shape, interleaved.

Weights are random and no model has an end token, so that all decode the same number of tokens.
"""

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from transformers import EncoderDecoderCache, PreTrainedModel

from ..core.machine import commit, cpu_threads, limit_allocations
from ..core.messages import say
from ..decoding import generate_beams
from ..models.build import build_marian, build_transevolve
from ..models.cache import TransEvolveCache
from ..models.int8 import quantize
from .ctranslate import Engine
from .options import MARIAN, DecodeOptions
from .results import Results, Row, open_results
from .rounds import Lane, attempt, missing_repeats, run_rounds
from .speed import warn_if_busy
from .systems import parse_spec

WAYS = {
    "generate": "Hugging Face's generate, with a cache",
    "uncached": "Hugging Face's generate, which computes the whole prefix again for each token",
    "beam": "the beam search of transevolve.decoding",
    "int8": "the same with int8 weights",
    "ctranslate2": "CTranslate2's engine in float32",
    "ctranslate2-int8": "CTranslate2's engine in int8",
}
ENGINES = ("ctranslate2", "ctranslate2-int8")


def build(text: str, options: DecodeOptions) -> PreTrainedModel:
    """A model with random weights and no end token."""
    torch.manual_seed(options.seed)
    shared: dict[str, Any] = {"vocab_size": options.vocab, "eos_token_id": None}
    if text == MARIAN:
        positions = max(options.source_length, options.new_tokens) + 1
        model: PreTrainedModel = build_marian(options.size, positions, **shared)
    else:
        spec = parse_spec(text, options.size)
        model = build_transevolve("ForConditionalGeneration", spec.name, spec.size, attention=spec.backend, **shared)
    dtype = torch.bfloat16 if options.precision == "bf16" else torch.float32
    model.to(options.device, dtype)  # pyright: ignore[reportArgumentType, reportCallIssue]
    return model.eval()


def decode(model: PreTrainedModel, way: str, source: Tensor, beams: int, new_tokens: int) -> Any:
    """Decodes `new_tokens` tokens of every sentence; returns the output of `generate`, which includes the cache."""
    keywords: dict[str, Any] = {"use_cache": way != "uncached"}
    if way in ("beam", "int8"):
        keywords = {"custom_generate": generate_beams, "extra_length": new_tokens}
    return model.generate(  # pyright: ignore[reportAttributeAccessIssue, reportCallIssue]
        source,
        attention_mask=torch.ones_like(source),
        num_beams=beams,
        max_new_tokens=new_tokens,
        return_dict_in_generate=True,
        **keywords,
    )


def cache_bytes(cache: Any) -> tuple[int | None, int | None]:
    """Bytes of the self-attention and of the cross-attention cache; None without a cache."""
    if isinstance(cache, TransEvolveCache):
        return cache.self_bytes(), cache.cross_bytes()
    if isinstance(cache, EncoderDecoderCache):
        parts = (cache.self_attention_cache, cache.cross_attention_cache)
        layers: list[list[Any]] = [list(part.layers) for part in parts]
        found = [sum(layer.keys.nbytes + layer.values.nbytes for layer in part) for part in layers]
        return found[0], found[1]
    return None, None


def measure_decode(options: DecodeOptions) -> Results:
    """Times every system and way; rounds that an earlier run has finished are not repeated."""
    results = open_results("decode", options)
    rows = _rows(results, options)
    if not any(missing_repeats(row, _repeats(row, options)) for row in rows):
        say(f"{results.path}: already measured")
        return results
    results.rows = rows
    warn_if_busy(options.threads)
    with cpu_threads(options.threads), limit_allocations():
        run_rounds(_lanes(rows, options), options.device, results.save)
    results.save()
    return results


def _repeats(row: Row, options: DecodeOptions) -> int:
    return options.uncached_repeats if row.way == "uncached" else options.repeats


def _rows(results: Results, options: DecodeOptions) -> list[Row]:
    """One row per system and way, from an earlier run or empty."""
    pairs = [(spec, way) for spec in options.specs() for way in options.ways]
    return [
        results.find(spec.text, options.new_tokens, way)
        or Row(spec.text, spec.backend, spec.size, options.new_tokens, options.batch, way=way, commit=commit())
        for spec, way in pairs
        if not (way in ("uncached", "int8") and spec.text == MARIAN) and not (way in ENGINES and spec.text != MARIAN)
    ]


def _lanes(rows: list[Row], options: DecodeOptions) -> list[Lane]:
    """One lane per row with remaining repeats, after a warmup of two tokens."""
    generator = torch.Generator().manual_seed(options.seed)
    shape = (options.batch, options.source_length)
    source = torch.randint(3, options.vocab - 1, shape, generator=generator).to(options.device)
    models: dict[str, PreTrainedModel] = {}
    lanes: list[Lane] = []

    def warmed_up(row: Row) -> Callable[[], None]:
        model = models.get(row.system) or build(row.system, options)
        models[row.system] = model
        row.parameters = model.num_parameters()
        if row.way in ENGINES:
            engine = Engine(model, int8=row.way != ENGINES[0])
            engine.decode(source, options.beams, min(2, options.new_tokens))
            return partial(_decode_engine, row, engine, source, options)
        if row.way == "int8":
            model = quantize(copy.deepcopy(model))
        decode(model, str(row.way), source, options.beams, min(2, options.new_tokens))
        return partial(_decode_row, row, model, source, options)

    for row in rows:
        if missing_repeats(row, _repeats(row, options)):
            step = attempt(row, partial(warmed_up, row))
            if step is not None:
                lanes.append(Lane(row, step, _repeats(row, options)))
    return lanes


def _decode_engine(row: Row, engine: Engine, source: Tensor, options: DecodeOptions) -> None:
    _require_length(row, engine.decode(source, options.beams, options.new_tokens))


def _decode_row(row: Row, model: PreTrainedModel, source: Tensor, options: DecodeOptions) -> None:
    out = decode(model, str(row.way), source, options.beams, options.new_tokens)
    _require_length(row, out.sequences.shape[1] - 1)
    row.self_bytes, row.cross_bytes = cache_bytes(out.past_key_values)


def _require_length(row: Row, decoded: int) -> None:
    if decoded != row.length:
        raise RuntimeError(f"decoded {decoded} tokens instead of {row.length}")
