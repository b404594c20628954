"""A simple baseline for text classifiers: bag of words with scikit-learn, on the same rows.

Logistic regression on TF-IDF (C = 10) and complement naive Bayes on counts, both on whole words of whole texts.
"""

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ..core.errors import UserError
from ..data import TextData
from ..data.long_texts import labels_and_owners
from ..data.options import SPLITS
from ..data.stored import Chained, select_rows

MOST_CHARACTERS = 100_000_000
MOST_WORDS = 200_000
MOST_WORK = 4e10
"""The maximum number of multiplications of logistic regression, about a minute on one core."""
ADVICE = "the bag of words scores better than the model: use it, or add texts with --data.unlabelled or labelled rows"


@dataclass(frozen=True)
class BagOfWords:
    """The accuracy of both models by split, the number of training rows, and the seconds it took."""

    logistic_regression: dict[str, float]
    naive_bayes: dict[str, float]
    rows: int
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def lines(self, validation: Mapping[str, float], test: Mapping[str, float] | None) -> list[str]:
        """The scores on the last split, and advice if they are better than the model's."""
        split, scores = ("validation", validation) if test is None else ("test", test)
        ahead = self.best(split) > scores["accuracy"]
        return [self.line(split), *([ADVICE] if ahead else [])]

    def best(self, split: str) -> float:
        return max(self.logistic_regression[split], self.naive_bayes[split])

    def line(self, split: str) -> str:
        """One line for a terminal, in percent."""
        regression, bayes = 100 * self.logistic_regression[split], 100 * self.naive_bayes[split]
        seconds = max(1, round(self.seconds))
        return f"bag of words: logistic regression {regression:.1f}, naive Bayes {bayes:.1f}, {seconds} s"


def bag_of_words(
    texts: Sequence[str],
    labels: Sequence[int] | np.ndarray,
    scored: Mapping[str, tuple[Sequence[str], Sequence[int] | np.ndarray]],
    *,
    seed: int = 0,
    most_characters: int = MOST_CHARACTERS,
) -> BagOfWords:
    """Fit both models on labelled texts and score them on every split of `scored`.

    Time and memory are bounded: rows are drawn (by `seed`) until they reach `most_characters`, the vocabulary
    contains only the most frequent words, and the regression stops after a fixed amount of work.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import ComplementNB

    started = time.perf_counter()
    classes = np.asarray(labels)
    if len(np.unique(classes)) < 2:
        raise UserError("the bag of words needs rows of at least two classes; set training.yardstick=false")
    kept = sampled_rows(texts, most_characters, seed)
    classes = classes[kept]
    counter = CountVectorizer(max_features=MOST_WORDS, dtype=np.float32)  # pyright: ignore[reportArgumentType]
    try:
        counts: Any = counter.fit_transform(select_rows(texts, kept))
    except ValueError:
        raise UserError("the bag of words found no word in the training rows; set training.yardstick=false") from None
    weighting = TfidfTransformer().fit(counts)
    iterations = int(np.clip(MOST_WORK / (20 * max(counts.nnz, 1) * (classes.max() + 1)), 20, 1000))
    regression = LogisticRegression(C=10, max_iter=iterations)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        regression.fit(weighting.transform(counts), classes)
    bayes = ComplementNB().fit(counts, classes)
    accuracies: tuple[dict[str, float], dict[str, float]] = ({}, {})
    for split, (rows, truth) in scored.items():
        words, classes = counter.transform(rows), np.asarray(truth)
        accuracies[0][split] = float(np.mean(regression.predict(weighting.transform(words)) == classes))
        accuracies[1][split] = float(np.mean(bayes.predict(words) == classes))
    return BagOfWords(*accuracies, rows=len(kept), seconds=time.perf_counter() - started)


def bag_of_words_of(data: TextData, seed: int = 0, refit: bool = False) -> BagOfWords | None:
    """Fit on train and score on the other splits; None for data without texts.

    With `refit`, the test rows are scored after fitting on train and validation.
    """
    rows = labelled_texts(data)
    if "train" not in rows:
        return None
    texts, labels = rows.pop("train")
    found = bag_of_words(texts, labels, rows, seed=seed)
    if not refit or "test" not in rows:
        return found
    more, more_labels = rows["validation"]
    again = bag_of_words(Chained(texts, more), np.concatenate([labels, more_labels]), {"test": rows["test"]}, seed=seed)
    return BagOfWords(
        found.logistic_regression | again.logistic_regression,
        found.naive_bayes | again.naive_bayes,
        again.rows,
        found.seconds + again.seconds,
    )


def labelled_texts(data: TextData) -> dict[str, tuple[Sequence[str], np.ndarray]]:
    """The texts and labels of every split that has texts."""
    rows = {}
    for split in SPLITS:
        part, texts = data.split(split), data.texts(split)
        if part is not None and texts is not None:
            rows[split] = (texts, labels_and_owners(part)[0])
    return rows


def sampled_rows(texts: Sequence[str], most_characters: int, seed: int) -> np.ndarray:
    """The rows to fit on, in order: all, or as many random ones as `most_characters` allow."""
    order = np.random.RandomState(seed).permutation(len(texts))
    total = np.cumsum(np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))[order])
    return np.sort(order[: max(2, int(np.searchsorted(total, most_characters, side="right")))])
