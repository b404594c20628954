"""Predictions, translations and scores from a saved run."""
