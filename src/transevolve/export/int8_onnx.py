"""Dynamic int8 quantization of an ONNX file: matrix products with constant weights, and embeddings."""

from pathlib import Path

from .onnx import quiet


def quantize_onnx(path: Path) -> None:
    """Quantizes a file in place. Weights have 7 bits, since 8-bit products may overflow on a CPU without VNNI."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    model, quantized = onnx.load(path), path.with_suffix(".int8")
    # Shapes are inferred again: those from the exporter would be wrong for transposed weights.
    del model.graph.value_info[:]
    with quiet():
        quantize_dynamic(
            model,
            quantized,
            op_types_to_quantize=["MatMul", "Gemm", "Gather"],
            per_channel=True,
            reduce_range=True,
            weight_type=QuantType.QInt8,
        )
    quantized.replace(path)
