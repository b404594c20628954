"""`transevolve pretrain`: trains a language model on texts without labels."""

from dataclasses import dataclass
from typing import Literal

from ..config.recipe import Recipe
from ..core.errors import UserError
from . import train

OBJECTIVES = ("masked", "causal")


@dataclass(frozen=True)
class Options(train.Options):
    """`--data.path` is a file of texts (txt, csv, tsv, jsonl or parquet, plain or gzip), or a folder of them.

    Args:
        objective: masked (predict masked tokens, the default) or causal (predict the next token).
    """

    objective: Literal["masked", "causal"] | None = None

    def load(self) -> Recipe:
        recipe = super().load()
        if recipe.data.task not in ("files", *OBJECTIVES):
            raise UserError(f"pretrain needs texts without labels, but data.task is {recipe.data.task!r}: use train")
        if self.objective is not None or recipe.data.task == "files":
            recipe.data.task = self.objective or "masked"
        return recipe

    def command(self) -> str:
        words = super().command().replace("transevolve train", "transevolve pretrain", 1)
        return words if self.objective is None else f"{words} --objective={self.objective}"


run = train.run
