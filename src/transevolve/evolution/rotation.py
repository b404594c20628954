"""Random rotations (paper, equation 10): fixed sine-cosine matrices, of which only singular values are learned.

    U = [sin(w_ij j l/P)] ++ [cos(w_ij j l/P)] / sqrt(dim),  j = 1..dim/2,  w_ij ~ N(0, dim^2),  P = dim L / 2 pi

Differs from the paper: a product U S V of rank r uses r columns of U and r rows of V; the rest is not drawn.
U U^T tends to I/2, not to I: a true rotation would need sqrt(2/dim).
"""

import math
import zlib
from collections.abc import Iterable, Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from .settings import Convention

SAMPLED = 64
LEFT, RIGHT = 0, 1


def draws(key: Sequence[int], dim: int, rows: int, columns: int) -> np.ndarray:
    """w ~ N(0, dim^2) from the stream of `key`: NumPy's legacy generator, whose numbers never change."""
    return np.random.RandomState(list(key)).standard_normal((rows, columns)) * dim


def checksum(keys: Iterable[Sequence[int]]) -> str:
    """A fingerprint of the streams of `keys`, rounded so that it does not depend on the last bits of a libm."""
    crc = 0
    for key in keys:
        sample = np.random.RandomState(list(key)).standard_normal(SAMPLED)
        crc = zlib.crc32(np.round(sample * 1e5).astype("<i8").tobytes(), crc)
    return f"{crc:08x}"


def rotation(w: np.ndarray, l: int, depth: int, dim: int, width: int) -> Float[Tensor, "rows width"]:
    """The first `width` columns of the paper's rotation at depth l; angles reach 1e4 radians, hence float64."""
    frequencies = np.arange(1, w.shape[1] + 1)
    return _waves(w * (frequencies * (l * 2 * math.pi / (dim * depth))), width) / math.sqrt(dim)


def reference_rotation(w: np.ndarray, l: int, dim: int, scale: int, width: int) -> Float[Tensor, "rows width"]:
    """The rotation of the authors' code: depth and frequency from 0, angle ((i pi/n) p) w rounded in float32."""
    step = np.float32(l - 1) * np.float32(math.pi / dim)
    frequencies = np.arange(w.shape[1], dtype=np.float32)
    angles = (step * frequencies) * w.astype(np.float32)
    return _waves(angles.astype(np.float64), width) / math.sqrt(scale)


def _waves(angles: np.ndarray, width: int) -> Float[Tensor, "rows width"]:
    sines = np.sin(angles[:, :width])
    cosines = np.cos(angles[:, : max(0, width - angles.shape[1])])
    return torch.from_numpy(np.concatenate([sines, cosines], axis=1))


def rotation_pair(
    left: np.ndarray, right: np.ndarray, inputs: int, outputs: int, l: int, depth: int, convention: Convention
) -> tuple[Float[Tensor, "inputs rank"], Float[Tensor, "rank outputs"]]:
    """U and V of W = U S V at depth l, cut to the rank of W, in float64; extra draws are ignored."""
    rank = min(inputs, outputs)
    left, right = left[:, :rank], right[:rank]
    if convention == "reference":
        u = reference_rotation(left, l, inputs, outputs, rank)
        return u, reference_rotation(right, l, outputs, outputs, outputs)
    return rotation(left, l, depth, inputs, rank), rotation(right, l, depth, outputs, outputs)


def drawn_pair(
    key: Sequence[int], inputs: int, outputs: int, l: int, depth: int, convention: Convention
) -> tuple[Float[Tensor, "inputs rank"], Float[Tensor, "rank outputs"]]:
    """`rotation_pair` with draws from the stream of `key`; only what is used is drawn."""
    rank = min(inputs, outputs)
    left = draws([*key, LEFT], inputs, inputs, min(rank, inputs // 2))
    right = draws([*key, RIGHT], outputs, rank, outputs // 2)
    return rotation_pair(left, right, inputs, outputs, l, depth, convention)
