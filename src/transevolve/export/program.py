"""Writes and loads `torch.export` programs, which run without this package."""

import warnings
from pathlib import Path

import torch
from torch import nn


def write_program(graph: nn.Module, example: tuple, shapes: dict, path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        # Raised for tensors that share the memory of a weights file; irrelevant on the CPU.
        warnings.filterwarnings("ignore", "No complete tensor found", UserWarning)
        torch.export.save(torch.export.export(graph, example, dynamic_shapes=shapes, strict=False), path)


def load_program(path: Path) -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return torch.export.load(path).module()
