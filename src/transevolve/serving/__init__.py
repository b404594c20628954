"""A run behind HTTP: JSON in, JSON out, requests answered in batches."""
