"""Runs exported translators with onnxruntime, numpy and tokenizers, without PyTorch and transformers."""

ENCODER, DECODER, FACTS, TOKENIZER = "encoder.onnx", "decoder.onnx", "translator.json", "tokenizer.json"
