"""Any number of labels per row, stored as a multi-hot vector."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.errors import UserError, nearest, quoted
from .labels import sorted_names
from .rows import Rows
from .wide_rows import BETWEEN, names_of


class LabelSets:
    """The targets of multi-label classification; `rows.labels` has the format of `read_wide_rows`."""

    def learn(self, rows: Rows, column: str | Sequence[str]) -> list[str]:
        columns = names_of(column)
        names = columns if len(columns) > 1 else sorted_names(name for name in _labels(rows) if name)
        if not any(rows.labels):
            raise UserError(f"{rows.file}: no row has any label in {quoted(columns)}; there is nothing to learn")
        return names

    def values(self, rows: Rows, names: Sequence[str], known_from: str) -> np.ndarray:
        index = {name: position for position, name in enumerate(names)}
        values = np.zeros((len(rows.labels), len(names)), dtype=np.int8)
        for row, label in enumerate(rows.labels):
            for name in label.split(BETWEEN) if label else ():
                if name not in index:
                    raise UserError(
                        f"{rows.where(row)}: the label {name!r} is not among those of {known_from}: {quoted(names)}"
                        f"{nearest(name, names)}"
                    )
                values[row, index[name]] = 1
        return values

    def strata(self, values: np.ndarray) -> np.ndarray:
        """The rarest label of each row, so that both parts of a split have it; labels with one row share a stratum."""
        rarity = np.append(values.sum(0), len(values) + 1)
        marked = np.column_stack([values, np.ones(len(values), dtype=values.dtype)])
        strata = np.where(marked == 1, rarity, rarity.max() + 1).argmin(1)
        present, counts = np.unique(strata, return_counts=True)
        if (counts == 1).any():
            single = np.isin(strata, present[counts == 1])
            strata[single] = present[counts.argmax()] if single.sum() == 1 else len(rarity)
        return strata

    def facts(self, values: np.ndarray, names: Sequence[str]) -> dict[str, Any]:
        return {"classes": dict(zip(names, values.sum(0, dtype=int).tolist(), strict=True))}


def _labels(rows: Rows) -> Counter[str]:
    return Counter(name for label in rows.labels for name in label.split(BETWEEN))
