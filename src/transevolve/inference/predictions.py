"""Predictions for many texts."""

from typing import TYPE_CHECKING, TypeVar

from ..kinds.base import Prediction

if TYPE_CHECKING:
    import pandas as pd

P = TypeVar("P", bound=Prediction)


class Predictions(list[P]):
    """A list of predictions, displayed as a table."""

    def to_pandas(self) -> "pd.DataFrame":
        """One row per text."""
        import pandas as pd

        return pd.DataFrame([prediction.row() for prediction in self])

    def __repr__(self) -> str:
        return str(self.to_pandas()) if self else "Predictions([])"

    def _repr_html_(self) -> str:
        return self.to_pandas().to_html(border=0, max_rows=20)
