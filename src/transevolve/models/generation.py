"""Hugging Face's `generate` with `TransEvolveCache`, for heads that generate tokens."""

from typing import Any

from torch import Tensor
from torch.compiler import is_compiling

from .cache import TransEvolveCache


class CachedGeneration:
    """The methods that `generate` needs from a model whose cache is a `TransEvolveCache`."""

    def new_cache(self, max_length: int | None = None, sentences: int = 1) -> TransEvolveCache:
        """An empty cache whose rows are beams of `sentences`; `max_length` is the largest length, if known."""
        raise NotImplementedError

    def checked_cache(self, past_key_values: Any, use_cache: bool) -> TransEvolveCache | None:
        """The caller's cache, or a new one if `use_cache`."""
        if past_key_values is None:
            return self.new_cache() if use_cache else None
        if not isinstance(past_key_values, TransEvolveCache):
            raise TypeError(f"past_key_values must come from new_cache(), got {type(past_key_values).__name__}")
        return past_key_values

    def wants_cache(self: Any, use_cache: bool | None, labels: Tensor | None) -> bool:
        """By default as configured, but False if no token can follow: in training, with labels, in a graph."""
        if use_cache is not None:
            return use_cache
        return self.config.use_cache and not self.training and labels is None and not is_compiling()

    def _prepare_cache_for_generation(
        self, generation_config, model_kwargs: dict[str, Any], generation_mode, batch_size: int, max_cache_length: int
    ) -> Any:
        kind = generation_config.cache_implementation
        if kind not in (None, "dynamic"):
            raise ValueError(f"cache_implementation={kind!r} cannot store evolved attention: remove it")
        if generation_config.use_cache is not False and model_kwargs.get("past_key_values") is None:
            model_kwargs["past_key_values"] = self.new_cache(max_cache_length, batch_size)
