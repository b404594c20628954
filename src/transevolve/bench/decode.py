"""Speed of translation: TransEvolve and a Marian Transformer of the same shape, in turns.

Weights are random and no model has an end token, so that all decode the same number of tokens.
"""

import copy
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor
from transformers import EncoderDecoderCache, PreTrainedModel

from ..core.errors import suggestion
from ..core.machine import allocations_that_fail, commit, cpu_threads
from ..decoding import generate_beams
from ..models.build import build_marian, build_transevolve
from ..models.cache import TransEvolveCache
from ..models.int8 import quantize
from ..models.settings import VARIANTS
from .ctranslate import Engine
from .options import RunOptions
from .results import Results, Row, open_results
from .rounds import Lane, attempt, missing_repeats, run_rounds
from .speed import warn_if_busy
from .systems import Spec, parse_spec

MARIAN = "marian"
WAYS = {
    "generate": "Hugging Face's generate, with a cache",
    "uncached": "Hugging Face's generate, which computes the whole prefix again for each token",
    "beam": "the beam search of transevolve.decoding",
    "int8": "the same with int8 weights",
    "ctranslate2": "CTranslate2's engine in float32",
    "ctranslate2-int8": "CTranslate2's engine in int8",
}
Way = Literal["generate", "uncached", "beam", "int8", "ctranslate2", "ctranslate2-int8"]
ENGINES = ("ctranslate2", "ctranslate2-int8")


@dataclass(frozen=True)
class DecodeOptions(RunOptions):
    """Speed of translation, side by side.

    Args:
        systems: VARIANT or VARIANT:BACKEND for TransEvolve; marian for the Transformer of Hugging Face.
        size: The paper's size.
        ways: generate (with a cache), beam (the beam search of this package), uncached and int8 (TransEvolve only),
            ctranslate2 and ctranslate2-int8 (Marian only; needs the package ctranslate2).
        batch: Number of sentences.
        beams: Beams per sentence.
        new_tokens: Tokens to decode per sentence.
        source_length: Tokens of each source sentence.
        repeats: Timed runs of each system and way.
        uncached_repeats: Timed runs of `uncached`, which takes many times longer.
    """

    systems: list[str] = field(default_factory=lambda: ["fullFF-1", "fullFF-2", "randomFF-1", MARIAN])
    size: Literal["small", "base"] = "base"
    vocab: int = 32000
    ways: list[Way] = field(default_factory=lambda: ["generate", "uncached", "beam"])
    batch: int = 32
    beams: int = 4
    new_tokens: int = 60
    source_length: int = 60
    repeats: int = 5
    uncached_repeats: int = 1

    def __post_init__(self):
        super().__post_init__()
        self.require_positive("batch", "beams", "new_tokens", "source_length", "repeats", "uncached_repeats")
        self.require_unique("ways")
        if self.vocab < 2 * self.beams:
            raise ValueError(f"--vocab must be at least twice --beams, got {self.vocab}")

    def specs(self) -> list[Spec]:
        return [_parse_translator(text, self.size) for text in self.systems]


def _parse_translator(text: str, size: str) -> Spec:
    if text == MARIAN:
        return Spec(text, text, "sdpa", size)
    if text.partition(":")[0] not in VARIANTS or "@" in text:
        raise ValueError(f"cannot translate with {text!r}" + suggestion(text, [*VARIANTS, MARIAN]))
    return parse_spec(text, size)


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
    """Decodes `new_tokens` tokens of every sentence; returns the output of `generate`, which holds the cache."""
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
        print(f"{results.path}: already measured", file=sys.stderr)
        return results
    results.rows = rows
    warn_if_busy(options.threads)
    with cpu_threads(options.threads), allocations_that_fail():
        run_rounds(_lanes(rows, options), options.device, results.save)
    results.save()
    return results


def _repeats(row: Row, options: DecodeOptions) -> int:
    return options.uncached_repeats if row.way == "uncached" else options.repeats


def _rows(results: Results, options: DecodeOptions) -> list[Row]:
    """One per system and way: as an earlier run left it, or empty."""
    pairs = [(spec, way) for spec in options.specs() for way in options.ways]
    return [
        results.find(spec.text, options.new_tokens, way)
        or Row(spec.text, spec.backend, spec.size, options.new_tokens, options.batch, way=way, commit=commit())
        for spec, way in pairs
        if not (way in ("uncached", "int8") and spec.text == MARIAN) and not (way in ENGINES and spec.text != MARIAN)
    ]


def _lanes(rows: list[Row], options: DecodeOptions) -> list[Lane]:
    """A lane for each row with repeats left, warmed up by decoding two tokens."""
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
    decoded = engine.decode(source, options.beams, options.new_tokens)
    if decoded != row.length:
        raise RuntimeError(f"decoded {decoded} tokens instead of {row.length}")


def _decode_row(row: Row, model: PreTrainedModel, source: Tensor, options: DecodeOptions) -> None:
    out = decode(model, str(row.way), source, options.beams, options.new_tokens)
    decoded = out.sequences.shape[1] - 1
    if decoded != row.length:
        raise RuntimeError(f"decoded {decoded} tokens instead of {row.length}")
    row.self_bytes, row.cross_bytes = cache_bytes(out.past_key_values)
