"""Dynamic int8 of an ONNX file by onnxruntime: matrix products with constant weights, and embeddings."""

import logging
from pathlib import Path


def quantize_onnx(path: Path) -> None:
    """Replaces the file. Weights have 7 bits: without VNNI, 8-bit products of a CPU may overflow."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    made = path.with_suffix(".int8")
    logger = logging.getLogger()
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        quantize_dynamic(
            path, made, per_channel=True, reduce_range=True, weight_type=QuantType.QInt8,
            op_types_to_quantize=["MatMul", "Gemm", "Gather"],
        )  # fmt: skip
    finally:
        logger.setLevel(level)
    made.replace(path)
