"""Options of the benchmarks, checked before anything runs. Only the checks import PyTorch."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from ..config.recipe import MARIAN
from ..core.errors import suggestion
from ..core.values import parse_bytes
from ..models.settings import VARIANTS

if TYPE_CHECKING:
    from .systems import Spec

Way = Literal["generate", "uncached", "beam", "int8", "ctranslate2", "ctranslate2-int8"]
DEFAULT_SYSTEMS = ["fullFF-1", "randomFF-1", "transformer", "transformer-eager"]
DEFAULT_LENGTHS = [512, 1024, 2048]


@dataclass(frozen=True)
class RunOptions:
    """Options of every benchmark.

    Args:
        systems: Systems to compare.
        size: The paper's size, for systems that do not name one.
        vocab: Vocabulary size.
        threads: CPU threads; PyTorch's default if not set.
        device: Device to run on: cpu, cuda, cuda:1 ...
        precision: fp32, or bf16: mixed (autocast) in a step, the whole model in decoding.
        seed: Seed of weights, inputs and dropout.
        output: Folder for the table, the plot and the raw numbers.
        name: File name in that folder; by default the name of the benchmark.
        restart: Discard the results of an earlier run.
    """

    systems: list[str] = field(default_factory=DEFAULT_SYSTEMS.copy)
    size: Literal["small", "base"] = "small"
    vocab: int = 256
    threads: int | None = None
    device: str = "cpu"
    precision: Literal["fp32", "bf16"] = "fp32"
    seed: int = 0
    output: str = "bench"
    name: str | None = None
    restart: bool = False

    def __post_init__(self):
        self.require_positive("threads", "vocab")
        self.require_unique("systems")
        self.specs()
        from ..core.devices import require_device

        if require_device(self.device).type not in ("cpu", "cuda"):
            raise ValueError(f"benchmarks run on cpu and cuda, not on {self.device!r}")

    def require_positive(self, *names: str) -> None:
        for name in names:
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"--{name} must be at least 1, got {value}")

    def require_unique(self, *names: str) -> None:
        for name in names:
            values = getattr(self, name)
            twice = next((value for value in values if values.count(value) > 1), None)
            if twice is not None:
                raise ValueError(f"--{name} lists {twice} twice; name it once")

    def specs(self) -> "list[Spec]":
        """The systems to measure."""
        from .systems import parse_spec

        return [parse_spec(text, self.size) for text in self.systems]


@dataclass(frozen=True)
class BenchOptions(RunOptions):
    """Options of the benchmarks of one training or forward step.

    Args:
        systems: VARIANT:BACKEND for TransEvolve, a name from `transevolve systems` for any other system; @small or
            @base after either sets the size of that row.
        lengths: Sequence lengths.
        batch: A number; tokens:N for equal tokens (N // length); or max, the largest that fits the memory budget.
        memory: Memory budget of one step above its model, such as 4GB; systems that need more are not run.
        mode: forward (no gradients) or train (forward, backward and optimizer step).
        features: Random features per head, for systems that have them.
        vocab: Vocabulary size; by default that of bytes, as in tasks with long sequences.
    """

    lengths: list[int] = field(default_factory=DEFAULT_LENGTHS.copy)
    batch: str = "tokens:4096"
    memory: str | None = None
    mode: Literal["forward", "train"] = "train"
    features: int | None = None

    def __post_init__(self):
        super().__post_init__()
        self.require_positive("features")
        if min(self.lengths) < 1:
            raise ValueError(f"--lengths must be at least 1, got {min(self.lengths)}")
        self.require_unique("lengths")
        if self.batch == "max" and self.memory is None:
            raise ValueError("--batch max needs a memory budget: add one such as --memory 4GB")
        if self.batch != "max":
            self.batch_size(1)
        self.budget()

    def budget(self) -> int | None:
        try:
            return None if self.memory is None else parse_bytes(self.memory)
        except ValueError as error:
            raise ValueError(f"--{error}") from None

    def batch_size(self, length: int) -> int:
        """The batch size at a length, unless it is `max`."""
        tokens = self.batch.removeprefix("tokens:")
        if not tokens.isdecimal() or int(tokens) < 1:
            raise ValueError(f"--batch must be a number, tokens:N or max, got {self.batch!r}")
        return int(tokens) if tokens == self.batch else max(1, int(tokens) // length)


@dataclass(frozen=True)
class SpeedOptions(BenchOptions):
    """Speed of systems, side by side.

    Args:
        repeats: Timed steps per system and length.
        warmup: Untimed steps before them.
    """

    repeats: int = 7
    warmup: int = 2

    def __post_init__(self):
        super().__post_init__()
        if self.repeats < 1 or self.warmup < 0:
            raise ValueError(f"--repeats must be at least 1 and --warmup 0, got {self.repeats} and {self.warmup}")


@dataclass(frozen=True)
class MemoryOptions(BenchOptions):
    """Peak memory of systems, side by side."""


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
        uncached_repeats: Timed runs of `uncached`, which is much slower.
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

    def specs(self) -> "list[Spec]":
        return [_parse_translator(text, self.size) for text in self.systems]


def _parse_translator(text: str, size: str) -> "Spec":
    from .systems import Spec, parse_spec

    if text == MARIAN:
        return Spec(text, text, "sdpa", size)
    if text.partition(":")[0] not in VARIANTS or "@" in text:
        raise ValueError(f"cannot translate with {text!r}" + suggestion(text, [*VARIANTS, MARIAN]))
    return parse_spec(text, size)
