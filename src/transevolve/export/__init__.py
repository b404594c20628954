"""Export of a run: ONNX, a `torch.export` program, or a folder for the Hugging Face Hub."""
