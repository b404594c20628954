"""How fast translation decodes: TransEvolve and a Marian Transformer of the same shape, interleaved in one run.

Weights are random and no model has an end token, so that all decode the same number of tokens.
"""

import gc
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor
from transformers import EncoderDecoderCache, MarianConfig, MarianMTModel, PreTrainedModel

from ..core.errors import suggestion
from ..core.machine import allocator, commit, cpu_threads, device_name, load_average, versions
from ..decoding import generate_beams
from ..models.cache import TransEvolveCache
from ..models.config import TransEvolveConfig
from ..models.heads.seq2seq import TransEvolveForConditionalGeneration
from ..models.settings import SIZES, VARIANTS
from .options import check_device
from .results import NOT_SETTINGS, Results, Row, command_line
from .summary import Spread, speed_ratio, spread
from .systems import parse_spec

MARIAN = "marian"
LAYERS = 6
WAYS = {
    "generate": "Hugging Face's generate, with a cache",
    "uncached": "Hugging Face's generate, the whole prefix anew for each token",
    "beam": "the beam search of transevolve.decoding",
}
Way = Literal["generate", "uncached", "beam"]


@dataclass(frozen=True)
class DecodeOptions:
    """How fast translation decodes, side by side.

    Args:
        systems: VARIANT or VARIANT:BACKEND for TransEvolve; marian for the Transformer of Hugging Face.
        ways: generate (with a cache), uncached (TransEvolve only) and beam (our own loop).
        size: The paper's size.
        vocab: Vocabulary size.
        batch: Sentences.
        beams: Beams of each.
        new_tokens: Tokens decoded of each.
        source_length: Tokens of each source.
        repeats: Measured runs of each system and way.
        uncached_repeats: The same for the uncached way, which takes many times as long.
        threads: CPU threads; PyTorch's own choice if not given.
        device: Where to run: cpu, cuda, cuda:1 ...
        seed: Of weights and sources.
        output: Folder for the table and the raw numbers.
        name: File name in that folder.
        restart: Drop what an earlier run left there.
    """

    systems: list[str] = field(default_factory=lambda: ["fullFF-1", "fullFF-2", "randomFF-1", MARIAN])
    ways: list[Way] = field(default_factory=lambda: ["generate", "uncached", "beam"])
    size: Literal["small", "base"] = "base"
    vocab: int = 32000
    batch: int = 32
    beams: int = 4
    new_tokens: int = 60
    source_length: int = 60
    repeats: int = 5
    uncached_repeats: int = 1
    threads: int | None = None
    device: str = "cpu"
    seed: int = 0
    output: str = "bench"
    name: str | None = None
    restart: bool = False

    def __post_init__(self):
        numbers = ("batch", "beams", "new_tokens", "source_length", "repeats", "uncached_repeats", "threads")
        for name in numbers:
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise ValueError(f"--{name} must be at least 1, got {getattr(self, name)}")
        if self.vocab < 2 * self.beams:
            raise ValueError(f"--vocab must be at least twice --beams, got {self.vocab}")
        for text in self.systems:
            self._check_system(text)
        check_device(self.device)

    def _check_system(self, text: str) -> None:
        if text == MARIAN:
            return
        if text.partition(":")[0] not in VARIANTS or "@" in text:
            raise ValueError(f"cannot translate with {text!r}" + suggestion(text, [*VARIANTS, MARIAN]))
        parse_spec(text, self.size)

    @property
    def path(self) -> Path:
        return Path(self.output) / f"{self.name or 'decode'}.json"


@dataclass
class DecodeRow(Row):
    """One system decoding in one way; `length` counts the tokens decoded."""

    way: str = ""
    cpu_seconds: list[float] = field(default_factory=list)
    self_bytes: int | None = None
    cross_bytes: int | None = None


def build(text: str, options: DecodeOptions) -> PreTrainedModel:
    """A model with random weights and no end token."""
    torch.manual_seed(options.seed)
    if text == MARIAN:
        model = MarianMTModel(marian_config(options))
    else:
        spec = parse_spec(text, options.size)
        config = TransEvolveConfig.variant(
            spec.name, size=spec.size, vocab_size=options.vocab, attention=spec.backend, eos_token_id=None
        )
        model = TransEvolveForConditionalGeneration(config)
    return model.eval().to(options.device)


def marian_config(options: DecodeOptions) -> MarianConfig:
    """The Transformer of the same width, depth, heads, feed-forward and vocabulary, embeddings tied."""
    shape = SIZES[options.size]
    sides = {}
    for side in ("encoder", "decoder"):
        sides[f"{side}_layers"] = LAYERS
        sides[f"{side}_attention_heads"] = shape["num_attention_heads"]
        sides[f"{side}_ffn_dim"] = shape["intermediate_size"]
    return MarianConfig(
        vocab_size=options.vocab,
        d_model=shape["hidden_size"],
        activation_function="relu",
        scale_embedding=True,
        max_position_embeddings=max(options.source_length, options.new_tokens) + 1,
        pad_token_id=0,
        bos_token_id=1,
        decoder_start_token_id=1,
        eos_token_id=None,
        forced_eos_token_id=None,
        **sides,
    )


def decode(model: PreTrainedModel, way: str, source: Tensor, beams: int, new_tokens: int) -> Any:
    """Decodes `new_tokens` tokens of every sentence; what `generate` returns, the cache in it."""
    own = {"use_cache": way != "uncached"}
    if way == "beam":
        own = {"custom_generate": generate_beams, "extra_length": new_tokens}
    return model.generate(  # pyright: ignore[reportAttributeAccessIssue]
        source,
        attention_mask=torch.ones_like(source),
        num_beams=beams,
        max_new_tokens=new_tokens,
        return_dict_in_generate=True,
        **own,
    )


def cache_bytes(cache: Any) -> tuple[int | None, int | None]:
    """Bytes of the target's past and of the source; None where there is no cache."""
    if isinstance(cache, TransEvolveCache):
        return cache.self_bytes(), cache.cross_bytes()
    if isinstance(cache, EncoderDecoderCache):
        parts = (cache.self_attention_cache, cache.cross_attention_cache)
        layers: list[list[Any]] = [list(part.layers) for part in parts]
        found = [sum(layer.keys.nbytes + layer.values.nbytes for layer in part) for part in layers]
        return found[0], found[1]
    return None, None


def measure_decode(options: DecodeOptions) -> Results:
    """Goes round all systems and ways, starting each round one further; writes the numbers at the end."""
    if options.path.exists() and not options.restart:
        raise ValueError(f"{options.path} is there already; --restart overwrites it, another --name keeps both")
    head = _header(options)
    with cpu_threads(options.threads):
        lanes = _lanes(options)
        for turn in range(options.repeats):
            start = turn % len(lanes)
            for row, run in lanes[start:] + lanes[:start]:
                if row.way == "uncached" and turn >= options.uncached_repeats:
                    continue
                _timed(row, run, options.device)
                spent = f"{row.seconds[-1]:.2f} s, of CPU time {row.cpu_seconds[-1]:.2f} s"
                print(f"round {turn + 1}: {row.system}, {row.way}: {spent}", file=sys.stderr)
    settings = {key: value for key, value in asdict(options).items() if key not in NOT_SETTINGS}
    results = Results(options.path, {"benchmark": "decode", **settings}, head, [])
    results.add([row for row, _ in lanes])
    return results


def _lanes(options: DecodeOptions) -> list[tuple[DecodeRow, Callable[[], Any]]]:
    """Every system and way with a function that decodes, warmed up by two tokens."""
    generator = torch.Generator().manual_seed(options.seed)
    shape = (options.batch, options.source_length)
    source = torch.randint(3, options.vocab, shape, generator=generator).to(options.device)
    lanes = []
    for text in options.systems:
        model = build(text, options)
        backend = "sdpa" if text == MARIAN else parse_spec(text, options.size).backend
        for way in options.ways:
            if way == "uncached" and text == MARIAN:
                continue
            row = DecodeRow(text, backend, options.size, options.new_tokens, options.batch, way=way, commit=commit())
            row.parameters = sum(p.numel() for p in model.parameters())
            decode(model, way, source, options.beams, min(2, options.new_tokens))
            lanes.append((row, partial(decode, model, way, source, options.beams, options.new_tokens)))
    return lanes


def _timed(row: DecodeRow, run: Callable[[], Any], device: str) -> None:
    gc.collect()
    cuda = torch.device(device).type == "cuda"
    if cuda:
        torch.cuda.synchronize(device)
    start, cpu = time.perf_counter(), time.process_time()
    out = run()
    if cuda:
        torch.cuda.synchronize(device)
    row.seconds.append(time.perf_counter() - start)
    row.cpu_seconds.append(time.process_time() - cpu)
    decoded = out.sequences.shape[1] - 1
    if decoded != row.length:
        raise RuntimeError(f"{row.system} decoded {decoded} tokens instead of {row.length}")
    row.self_bytes, row.cross_bytes = cache_bytes(out.past_key_values)


def _header(options: DecodeOptions) -> dict[str, str]:
    return {
        "command": command_line("transevolve bench decode", options),  # pyright: ignore[reportArgumentType]
        "machine": device_name(options.device),
        "threads": str(options.threads or torch.get_num_threads()),
        "allocator": allocator(),
        "load before": f"{load_average():.2f}",
        "versions": ", ".join(f"{name} {version}" for name, version in versions().items()),
        "commit": commit() or "not a checkout",
        "started": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    }


def ratio(row: DecodeRow, against: DecodeRow, *, cpu: bool = False) -> Spread:
    """How many times the tokens a second; over the rounds that both have. By CPU seconds, if asked."""
    rounds = min(len(row.seconds), len(against.seconds))
    mine, theirs = ((r.cpu_seconds if cpu else r.seconds)[:rounds] for r in (row, against))
    if rounds < max(len(row.seconds), len(against.seconds)):
        return spread([b / a for a, b in zip(mine, theirs, strict=True)])
    return speed_ratio(replace(row, seconds=mine), replace(against, seconds=theirs))
