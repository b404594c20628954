"""Training: the paper's procedure on Hugging Face's Trainer."""
