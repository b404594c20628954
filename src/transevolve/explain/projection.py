"""Many vectors in the plane: their two main axes."""

import numpy as np


def project(states: np.ndarray) -> tuple[np.ndarray, float]:
    """States (..., d) on the two main axes of them all, signs fixed, and the share of the spread that these keep."""
    flat = states.reshape(-1, states.shape[-1]).astype(np.float64)
    centred = flat - flat.mean(0)
    _, sizes, axes = np.linalg.svd(centred, full_matrices=False)
    axes = axes[:2] * np.sign(axes[np.arange(2), np.abs(axes[:2]).argmax(1)])[:, None]
    spread = np.square(sizes)
    return (centred @ axes.T).reshape(*states.shape[:-1], 2), float(spread[:2].sum() / max(spread.sum(), 1e-12))


def apart(states: np.ndarray) -> np.ndarray:
    """States (depth, token, d) less the mean over tokens at each depth: what tokens do relative to each other."""
    return states - states.mean(1, keepdims=True)
