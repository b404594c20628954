"""A run's model for elsewhere: ONNX, a `torch.export` program, or a folder for the Hugging Face hub."""
