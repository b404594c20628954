"""What a benchmark can be told, and the checks made before anything runs."""

from dataclasses import dataclass, field
from typing import Literal

import torch

from ..core.peak_memory import parse_bytes
from .systems import Spec, parse_spec

DEFAULT_SYSTEMS = ["fullFF-1", "randomFF-1", "transformer", "transformer-eager"]
DEFAULT_LENGTHS = [512, 1024, 2048]


@dataclass(frozen=True)
class BenchOptions:
    """What all benchmarks share.

    Args:
        systems: VARIANT:BACKEND for TransEvolve, a name from `transevolve systems` for any other system; @small or
            @base after either sets the size of that row.
        size: The paper's size, for systems that do not name one.
        lengths: Sequence lengths.
        batch: A number; tokens:N for equal tokens (N // length); or max, the largest that fits the memory budget.
        memory: Budget of one step above its model, such as 4GB: what needs more is not run.
        mode: forward (no gradients) or train (forward, backward and Adam).
        threads: CPU threads; PyTorch's own choice if not given.
        device: Where to run: cpu, cuda, cuda:1 ...
        features: Random features a head, for systems that have them.
        vocab: Vocabulary size; that of bytes if not given, as in the tasks where such lengths occur.
        seed: Of weights, token ids and dropout.
        output: Folder for the table, the plot and the raw numbers.
        name: File name in that folder; the benchmark's own if not given.
        restart: Drop what an earlier run left there.
    """

    systems: list[str] = field(default_factory=DEFAULT_SYSTEMS.copy)
    size: Literal["small", "base"] = "small"
    lengths: list[int] = field(default_factory=DEFAULT_LENGTHS.copy)
    batch: str = "tokens:4096"
    memory: str | None = None
    mode: Literal["forward", "train"] = "train"
    threads: int | None = None
    device: str = "cpu"
    features: int | None = None
    vocab: int = 256
    seed: int = 0
    output: str = "bench"
    name: str | None = None
    restart: bool = False

    def __post_init__(self):
        for name in ("threads", "features", "vocab"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise ValueError(f"--{name} must be at least 1, got {getattr(self, name)}")
        if min(self.lengths) < 1:
            raise ValueError(f"--lengths must be at least 1, got {min(self.lengths)}")
        for name, given in (("systems", self.systems), ("lengths", self.lengths)):
            twice = next((item for item in given if given.count(item) > 1), None)
            if twice is not None:
                raise ValueError(f"--{name} lists {twice} twice; name it once")
        if self.batch == "max" and self.memory is None:
            raise ValueError("--batch max needs a budget to fill: add one such as --memory 4GB")
        if self.batch != "max":
            self.batch_size(1)
        self.budget()
        self.specs()
        check_device(self.device)

    def specs(self) -> list[Spec]:
        return [parse_spec(text, self.size) for text in self.systems]

    def budget(self) -> int | None:
        try:
            return None if self.memory is None else parse_bytes(self.memory)
        except ValueError as error:
            raise ValueError(f"--{error}") from None

    def batch_size(self, length: int) -> int:
        """The batch at a length, for every rule but `max`."""
        tokens = self.batch.removeprefix("tokens:")
        if not tokens.isdecimal() or int(tokens) < 1:
            raise ValueError(f"--batch must be a number, tokens:N or max, got {self.batch!r}")
        return int(tokens) if tokens == self.batch else max(1, int(tokens) // length)


def check_device(name: str) -> torch.device:
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ValueError(f"unknown device {name!r}; write cpu, cuda or cuda:1") from error
    if device.type not in ("cpu", "cuda"):
        raise ValueError(f"benchmarks know cpu and cuda, not {name!r}")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ValueError(f"no device {name!r} here: PyTorch {torch.__version__} sees {torch.cuda.device_count()} GPUs")
    return device
