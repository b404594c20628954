"""Runs exported translators with onnxruntime, numpy and tokenizers, without PyTorch and transformers."""
