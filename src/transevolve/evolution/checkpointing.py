"""Gradient checkpointing of single depths: activations are recomputed in the backward pass."""

from collections.abc import Callable
from functools import partial
from typing import Any

from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint


class Checkpointed(nn.Module):
    """A module whose steps can be checkpointed. Hugging Face sets both attributes.

    Steps share the state of their block, which reentrant checkpointing cannot differentiate: it only follows tensors
    passed as arguments. `use_reentrant=True` is therefore run as `use_reentrant=False`, which gives the same gradients.
    """

    gradient_checkpointing = False
    _gradient_checkpointing_func: Callable[..., Tensor] = partial(checkpoint, use_reentrant=False)

    def run(self, step: Callable[[Tensor], Tensor], x: Tensor, stream: object = None) -> Tensor:
        """`step(x)`. With a stream it is not checkpointed: recomputation would append the tokens twice."""
        if stream is not None or not (self.gradient_checkpointing and self.training):
            return step(x)
        settings: dict[str, Any] = getattr(self._gradient_checkpointing_func, "keywords", {})
        if settings.get("use_reentrant", True) is False:
            return self._gradient_checkpointing_func(step, x)
        return checkpoint(step, x, **{**settings, "use_reentrant": False})
