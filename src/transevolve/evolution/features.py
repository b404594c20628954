"""Feature maps phi with phi(q) . phi(k) close or equal to a positive kernel, for attention in O(n).

    positive:  exp(q.k) ~ phi(q).phi(k),  phi(x) = exp(W x - |x|^2/2)   (FAVOR+, Choromanski et al., 2021)
    elu:       phi(x) = elu(x) + 1, a kernel of its own                 (Katharopoulos et al., 2020)

Differs from FAVOR+: the largest feature of each x is returned apart, as a logarithm, so that no feature of a key
underflows because another key is large.
"""

import math

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import elu

FLOOR = 1e-6


def orthogonal_features(features: int, width: int, seed: int) -> Float[Tensor, "features width"]:
    """Rows as long as Gaussian ones, orthogonal to each other in groups of `width`."""
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
    """exp(W x - |x|^2/2) as (features of which the largest is 1, logarithm of the factor taken out).

    `FLOOR` is Performer's own safeguard: no query is orthogonal to all keys.
    """
    log = x @ projection.mT.to(x.dtype) - x.square().sum(-1, keepdim=True) / 2
    largest = log.detach().amax(-1, keepdim=True)
    return torch.exp(log - largest) + FLOOR, largest.squeeze(-1)


def elu_features(x: Float[Tensor, "*batch n width"]) -> tuple[Tensor, Float[Tensor, "*batch n"]]:
    return elu(x) + 1, x.new_zeros(x.shape[:-1])
