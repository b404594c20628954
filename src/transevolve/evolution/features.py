"""Feature maps phi for attention in O(n): phi(q) . phi(k) approximates or defines a positive kernel.

    positive:  exp(q.k) ~ phi(q).phi(k),  phi(x) = exp(W x - |x|^2/2)   (FAVOR+, Choromanski et al., 2021)
    elu:       phi(x) = elu(x) + 1, a kernel of its own                 (Katharopoulos et al., 2020)

Differs from FAVOR+: the largest feature of each x is returned separately, as a logarithm, so that features of small
keys do not underflow beside those of large ones.
"""

import math

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import elu

FLOOR = 1e-6


def orthogonal_features(features: int, width: int, seed: int) -> Float[Tensor, "features width"]:
    """Rows with the lengths of Gaussian vectors, orthogonal within groups of `width`; not drawn on the meta device."""
    if torch.get_default_device().type == "meta":
        return torch.empty(features, width)
    random = np.random.RandomState(seed)
    rows = []
    for _ in range(math.ceil(features / width)):
        square, triangle = np.linalg.qr(random.standard_normal((width, width)))
        rows.append((square * np.sign(np.diag(triangle))).T)
    lengths = np.linalg.norm(random.standard_normal((features, width)), axis=1)
    return torch.from_numpy(np.concatenate(rows)[:features] * lengths[:, None]).float()


def positive_features(
    x: Float[Tensor, "*batch n width"], projection: Float[Tensor, "features width"]
) -> tuple[Float[Tensor, "*batch n features"], Float[Tensor, "*batch n"]]:
    """exp(W x - |x|^2/2) as (features scaled so that the largest is 1, log of the scale).

    `FLOOR` is from Performer: it keeps a query from being orthogonal to all keys.
    """
    log = x @ projection.mT.to(x.dtype) - x.square().sum(-1, keepdim=True) / 2
    largest = log.detach().amax(-1, keepdim=True)
    return torch.exp(log - largest) + FLOOR, largest.squeeze(-1)


def elu_features(x: Float[Tensor, "*batch n width"]) -> tuple[Tensor, Float[Tensor, "*batch n"]]:
    return elu(x) + 1, x.new_zeros(x.shape[:-1])
