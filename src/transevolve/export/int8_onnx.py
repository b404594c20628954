"""Dynamic int8 of an ONNX file by onnxruntime: matrix products with constant weights, and embeddings."""

import logging
from pathlib import Path


def quantize_onnx(path: Path) -> None:
    """Replaces the file. Weights have 7 bits: without VNNI, 8-bit products of a CPU may overflow."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    model, made = onnx.load(path), path.with_suffix(".int8")
    # Shapes that the exporter noted are inferred again; those of transposed weights would be wrong.
    del model.graph.value_info[:]
    logger = logging.getLogger()
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        quantize_dynamic(
            model,
            made,
            op_types_to_quantize=["MatMul", "Gemm", "Gather"],
            per_channel=True,
            reduce_range=True,
            weight_type=QuantType.QInt8,
        )
    finally:
        logger.setLevel(level)
    made.replace(path)
