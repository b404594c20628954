"""Float32 products by oneDNN, on CPUs where it uses wider vectors than MKL, PyTorch's default."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..core.private import onednn_linear, onednn_multiplies_faster


def is_faster(*factors: Tensor) -> bool:
    """Whether oneDNN can multiply these tensors, and is the faster of the two."""
    plain = all(
        type(x) in (Tensor, nn.Parameter) and x.dtype == torch.float32 and x.device.type == "cpu" for x in factors
    )
    return plain and onednn_multiplies_faster()


def multiply_by_head(
    a: Float[Tensor, "heads rows inner"], b: Float[Tensor, "heads inner columns"]
) -> Float[Tensor, "heads rows columns"]:
    """a b for each head, without gradients."""
    products = [onednn_linear(x, y.mT) for x, y in zip(a, b, strict=True)]
    return products[0][None] if len(products) == 1 else torch.stack(products)
