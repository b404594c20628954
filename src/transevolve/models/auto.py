"""Registers the models with Hugging Face's Auto classes when the first configuration is made.

An Auto class always reads the configuration first, and `import transevolve` stays light: transformers'
`PreTrainedModel` imports accelerate.
"""

from functools import cache
from importlib import import_module
from typing import Any

from .heads import MODELS, ModelClass


def model_class(model: ModelClass) -> Any:
    return getattr(import_module(f"transevolve.models.{model.module}"), model.name)


@cache
def register_models() -> None:
    import transformers

    for model in MODELS:
        found = model_class(model)
        getattr(transformers, model.auto).register(found.config_class, found, exist_ok=True)
