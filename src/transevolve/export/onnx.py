"""A classifier as ONNX, for any batch size and length, run by onnxruntime."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ..core.errors import UserError
from .classifier import Forward, Logits, dynamic_shapes, sample

PACKAGES = ("onnx", "onnxruntime", "onnxscript")
INPUTS = ["input_ids", "attention_mask"]
OPSET = 18


def require_packages() -> None:
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise UserError(
            f"ONNX needs {', '.join(missing)}: pip install 'transevolve[export]' or pip install {' '.join(missing)}"
        )


def write_onnx(logits: Logits, vocab: int, path: Path) -> None:
    with quiet_exporter():
        torch.onnx.export(
            logits,
            sample(2, 6, vocab),
            path,
            input_names=INPUTS,
            output_names=["logits"],
            dynamic_shapes=dynamic_shapes(),
            dynamo=True,
            external_data=False,
            opset_version=OPSET,
            verbose=False,
        )


def load_onnx(path: Path) -> Forward:
    """The model in onnxruntime, on as many threads as PyTorch uses."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def run(input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        inputs = dict(zip(INPUTS, (input_ids.numpy(), attention_mask.numpy()), strict=True))
        return torch.from_numpy(np.asarray(session.run(["logits"], inputs)[0]))

    return run


@contextmanager
def quiet_exporter() -> Iterator[None]:
    """Hides deprecation warnings and notes that only the authors of the exporter can act on."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
