"""How the label column of a table is read, stratified and counted."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from ..core.errors import UserError
from .labels import sorted_names
from .rows import Rows, class_indices


class Targets(Protocol):
    """How to interpret a label column. `names` are the names of the model's outputs, which `learn` returns."""

    def learn(self, rows: Rows, column: Any) -> list[str]:
        """The names of the outputs, from the training rows; raises an error if there is nothing to learn."""
        ...

    def values(self, rows: Rows, names: Sequence[str], known_from: str) -> np.ndarray:
        """The label of each row; errors name the row."""
        ...

    def strata(self, values: np.ndarray) -> np.ndarray:
        """The stratum of each row, an integer; splits and samples keep the proportions of strata."""
        ...

    def facts(self, values: np.ndarray, names: Sequence[str]) -> dict[str, Any]:
        """Fields of `SplitFacts`."""
        ...


class Classes:
    """One class per row, stored as an index into the names."""

    def learn(self, rows: Rows, column: str) -> list[str]:
        names = sorted_names(rows.labels)
        if len(names) == 1:
            raise UserError(
                f"{rows.file}: all {len(rows.labels):,} rows have the same label {names[0]!r};"
                f" a classifier needs two classes or more (is {column!r} the label column?)"
            )
        return names

    def values(self, rows: Rows, names: Sequence[str], known_from: str) -> np.ndarray:
        return class_indices(rows, names, known_from)

    def strata(self, values: np.ndarray) -> np.ndarray:
        return values

    def facts(self, values: np.ndarray, names: Sequence[str]) -> dict[str, Any]:
        counts = np.bincount(values, minlength=len(names)).tolist()
        return {"classes": dict(zip(names, counts, strict=True))}
