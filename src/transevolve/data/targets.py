"""What the label column of a table means: how it is read, what balances a split, what is counted."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from ..core.errors import UserError
from .labels import in_order
from .rows import Rows, class_indices


class Targets(Protocol):
    """The meaning of a label column. `names` are those of the model's outputs, as `learn` finds them in train."""

    def learn(self, rows: Rows, column: Any) -> list[str]:
        """The names of the outputs; a column that cannot be learned is an error."""
        ...

    def values(self, rows: Rows, names: Sequence[str], known_from: str) -> np.ndarray:
        """The label of each row; an error names the row."""
        ...

    def strata(self, values: np.ndarray) -> np.ndarray:
        """A whole number per row; cuts and samples keep their proportions."""
        ...

    def facts(self, values: np.ndarray, names: Sequence[str]) -> dict[str, Any]:
        """Fields of `SplitFacts`."""
        ...


class Classes:
    """One class per row, stored as an index into the names."""

    def learn(self, rows: Rows, column: str) -> list[str]:
        names = in_order(rows.labels)
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
