"""The map of depth, T^l (paper, equation 7): how a block encodes time."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from .settings import Convention


def depth_angles(
    width: int, depth: int, convention: Convention, device: torch.device | None = None
) -> Float[Tensor, "depth half"]:
    """Angle of frequency j at depth l, in float64.

    paper:     j l / P = 2 pi j l / (d' L),  j = 1..d'/2,  l = 1..L
    reference: i p pi / 64,                  p = 0..d'/2 - 1,  i = 0..L - 1, for any d' and L
    """
    frequencies = torch.arange(width // 2, dtype=torch.float64, device=device)
    times = torch.arange(depth, dtype=torch.float64, device=device)
    if convention == "reference":
        return torch.outer(times, frequencies) * (math.pi / 64)
    return torch.outer(times + 1, frequencies + 1) * (2 * math.pi / (width * depth))


def depth_map(weights: Float[Tensor, "depth width"], convention: Convention) -> Float[Tensor, "depth width"]:
    """T^l for every depth: [w_j sin(j l/P)] ++ [w_{j+d'/2} cos(j l/P)], with w learned at each depth."""
    depth, width = weights.shape
    angles = depth_angles(width, depth, convention, weights.device)
    waves = torch.cat([angles.sin(), angles.cos()], dim=-1)
    return weights * waves.to(weights.dtype)
