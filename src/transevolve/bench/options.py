"""Options of the benchmarks, checked before anything runs."""

from dataclasses import dataclass, field
from typing import Literal

import torch

from ..core.peak_memory import parse_bytes
from .systems import Spec, parse_spec

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
        check_device(self.device)

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

    def specs(self) -> list[Spec]:
        """The systems to measure."""
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


def check_device(name: str) -> None:
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ValueError(f"unknown device {name!r}; use cpu, cuda or cuda:1") from error
    if device.type not in ("cpu", "cuda"):
        raise ValueError(f"benchmarks run on cpu and cuda, not on {name!r}")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ValueError(f"no device {name!r} here: PyTorch {torch.__version__} sees {torch.cuda.device_count()} GPUs")
