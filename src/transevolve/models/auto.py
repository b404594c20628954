"""The Auto classes learn the models when the first configuration is made.

Every way to a model through them begins with its configuration; and `import transevolve` stays light, since
transformers' `PreTrainedModel` brings accelerate with it.
"""

from functools import cache
from importlib import import_module


@cache
def register_models() -> None:
    for name in ("encoder", "heads.classification", "heads.seq2seq", "peer"):
        import_module(f"transevolve.models.{name}")
