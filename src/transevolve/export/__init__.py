"""Exports a run to ONNX, to a `torch.export` program, or to a folder for the Hugging Face Hub."""
