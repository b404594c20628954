"""A classifier as a `torch.export` program, which runs without this package."""

import warnings
from pathlib import Path

import torch

from .classifier import Forward, Logits, dynamic_shapes, sample


def write_program(logits: Logits, vocab: int, path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        # Of tensors that share the memory of a weights file; it matters only off the CPU.
        warnings.filterwarnings("ignore", "No complete tensor found", UserWarning)
        program = torch.export.export(logits, sample(2, 6, vocab), dynamic_shapes=dynamic_shapes(), strict=False)
        torch.export.save(program, path)


def load_program(path: Path) -> Forward:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return torch.export.load(path).module()
