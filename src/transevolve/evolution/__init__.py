"""The paper's sections 4 and 5 in plain PyTorch, without Hugging Face."""
