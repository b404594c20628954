"""Exported translators at work: onnxruntime, numpy and tokenizers, without PyTorch and transformers."""
