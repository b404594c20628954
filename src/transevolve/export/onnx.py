"""Writes ONNX files, and runs exported classifiers with onnxruntime."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from ..core.errors import UserError
from .classifier import Forward

PACKAGES = ("onnx", "onnxruntime", "onnxscript")
INPUTS = ["input_ids", "attention_mask"]
OPSET = 18


def require_packages() -> None:
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise UserError(
            f"ONNX needs {', '.join(missing)}: pip install 'transevolve[export]' or pip install {' '.join(missing)}"
        )


def write_onnx(
    graph: nn.Module, example: tuple, shapes: dict, inputs: list[str], outputs: list[str], path: Path
) -> None:
    with quiet("torch.onnx"):
        torch.onnx.export(
            graph,
            example,
            path,
            input_names=inputs,
            output_names=outputs,
            dynamic_shapes=shapes,
            dynamo=True,
            external_data=False,
            opset_version=OPSET,
            verbose=False,
        )


def load_onnx(path: Path) -> Forward:
    """Loads a model in onnxruntime, with as many threads as PyTorch."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def run(input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        inputs = dict(zip(INPUTS, (input_ids.numpy(), attention_mask.numpy()), strict=True))
        return torch.from_numpy(np.asarray(session.run(["logits"], inputs)[0]))

    return run


@contextmanager
def quiet(name: str | None = None) -> Iterator[None]:
    """Hides warnings, and logs of the logger `name` or of all, that users cannot act on."""
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
