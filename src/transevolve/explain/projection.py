"""Vectors projected on their two principal axes."""

import numpy as np


def project(states: np.ndarray) -> tuple[np.ndarray, float]:
    """States (..., d) on their two principal axes, with fixed signs, and the fraction of the variance they explain."""
    flat = states.reshape(-1, states.shape[-1]).astype(np.float64)
    centred = flat - flat.mean(0)
    _, sizes, axes = np.linalg.svd(centred, full_matrices=False)
    axes = axes[:2] * np.sign(axes[np.arange(2), np.abs(axes[:2]).argmax(1)])[:, None]
    spread = np.square(sizes)
    return (centred @ axes.T).reshape(*states.shape[:-1], 2), float(spread[:2].sum() / max(spread.sum(), 1e-12))


def apart(states: np.ndarray) -> np.ndarray:
    """States (depth, token, d) minus the mean over tokens at each depth: motion relative to each other."""
    return states - states.mean(1, keepdims=True)
