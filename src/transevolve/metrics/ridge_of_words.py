"""A simple baseline for numbers: ridge regression on TF-IDF of whole words with scikit-learn, on the same rows."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ..core.errors import UserError
from ..data import TextData
from ..data.stored import Chained, select_rows
from .bag_of_words import ADVICE, MOST_CHARACTERS, MOST_WORDS, labelled_texts, sampled_rows


@dataclass(frozen=True)
class RidgeOfWords:
    """Mean squared error and R² by split, and the seconds it took."""

    ridge: dict[str, dict[str, float]]
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def lines(self, validation: Mapping[str, float], test: Mapping[str, float] | None) -> list[str]:
        """The scores on the last split, and advice if they are better than the model's."""
        split, scores = ("validation", validation) if test is None else ("test", test)
        own, seconds = self.ridge[split], max(1, round(self.seconds))
        line = f"bag of words: ridge regression mse {own['mse']:.4f}, r2 {own['r2']:.4f}, {seconds} s"
        return [line, *([ADVICE] if own["mse"] < scores["mse"] else [])]


def ridge_of_words(data: TextData, seed: int = 0, refit: bool = False) -> RidgeOfWords | None:
    """Fit on train and score on the other splits; None for data without texts.

    With `refit`, the test rows are scored after fitting on train and validation.
    """
    from sklearn.metrics import mean_squared_error, r2_score

    started, rows = time.perf_counter(), labelled_texts(data)
    if "train" not in rows:
        return None
    texts, numbers = rows.pop("train")
    predict, found = _fitted(texts, numbers, seed), {}
    for split, (scored, truth) in rows.items():
        if split == "test" and refit:
            more, more_numbers = rows["validation"]
            predict = _fitted(Chained(texts, more), np.concatenate([numbers, more_numbers]), seed)
        predicted = predict(scored)
        r2 = float(r2_score(truth, predicted)) if len(truth) > 1 else 0.0
        found[split] = {"mse": float(mean_squared_error(truth, predicted)), "r2": r2}
    return RidgeOfWords(found, time.perf_counter() - started)


def _fitted(texts: Sequence[str], numbers: np.ndarray, seed: int) -> Callable[[Sequence[str]], np.ndarray]:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import Ridge

    kept = sampled_rows(texts, MOST_CHARACTERS, seed)
    words = TfidfVectorizer(max_features=MOST_WORDS)
    try:
        counts = words.fit_transform(select_rows(texts, kept))
    except ValueError:
        raise UserError("the bag of words found no word in the training rows; set training.yardstick=false") from None
    model = Ridge(solver="sparse_cg").fit(counts, numbers[kept])
    return lambda rows: model.predict(words.transform(rows))
