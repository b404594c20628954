"""Gradient checkpointing of single depths: their activations are recomputed in backward."""

from collections.abc import Callable
from functools import partial
from typing import Any

from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint


class Checkpointed(nn.Module):
    """A module whose steps may be checkpointed. Hugging Face sets both attributes.

    Steps share the state of their block, which reentrant checkpointing cannot differentiate: it sees only tensors
    passed as arguments. `use_reentrant=True` therefore runs as `use_reentrant=False`, whose gradients are the same.
    """

    gradient_checkpointing = False
    _gradient_checkpointing_func: Callable[..., Tensor] = partial(checkpoint, use_reentrant=False)

    def run(self, step: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        if not (self.gradient_checkpointing and self.training):
            return step(x)
        settings: dict[str, Any] = getattr(self._gradient_checkpointing_func, "keywords", {})
        if settings.get("use_reentrant", True) is False:
            return self._gradient_checkpointing_func(step, x)
        return checkpoint(step, x, **{**settings, "use_reentrant": False})
