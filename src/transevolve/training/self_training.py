"""Self-training: adds unlabelled texts that the model labels with high confidence to the training rows."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..config.recipe import Recipe
from ..core.errors import UserError
from ..core.windows import windows
from ..data import TextData
from ..data.encoding import encode
from ..data.options import SPLITS
from ..data.stored import Chained
from ..data.unlabelled import unlabelled_texts
from ..data.views import column_array
from ..kinds.base import Kind
from ..kinds.classification import Classification, ClassPrediction
from ..kinds.session import Session

SURE, MOST, WINDOW = 0.9, 5, 1024


def check_self_training(recipe: Recipe, kind: Kind) -> None:
    if not recipe.training.self_training:
        return
    if not isinstance(kind, Classification):
        raise UserError(f"training.self_training labels texts with classes, which {kind.noun} does not have: remove it")
    if recipe.data.unlabelled is None:
        raise UserError("training.self_training needs texts without labels: name them with data.unlabelled")


def guessed_texts(kind: Kind, session: Session, recipe: Recipe, data: TextData) -> tuple[list[str], list[int]]:
    """Texts of `data.unlabelled` with a predicted probability of at least 0.9, and their predicted classes.

    There are at most five per labelled row of a class, so that classes keep their proportions. Texts that also occur in
    a split of the data are skipped.
    """
    assert data.train is not None
    room = MOST * np.bincount(column_array(data.train, "labels"), minlength=len(data.labels))
    texts, classes = [], []
    known = {text for split in SPLITS for text in data.texts(split) or ()}
    unlabelled = unlabelled_texts(str(recipe.data.unlabelled), recipe.data.text)
    for window in windows((text for text in unlabelled if text not in known), WINDOW):
        for found in kind.predict(session, window, lambda index: f"{recipe.data.unlabelled}, a text"):
            assert isinstance(found, ClassPrediction)
            place = data.labels.index(found.label)
            if found.probability >= SURE and room[place]:
                room[place] -= 1
                texts.append(found.text)
                classes.append(place)
        if not room.any():
            break
    return texts, classes


def with_guesses(data: TextData, texts: Sequence[str], classes: Sequence[int]) -> TextData:
    """Add texts to the training rows."""
    from datasets import concatenate_datasets

    assert data.train is not None
    encoded = encode(data.tokenizer, texts, data.report.max_length, lambda index: "an unlabelled text")
    train = concatenate_datasets([data.train, encoded.dataset(np.asarray(classes, dtype=np.int64))])
    return replace(data, train=train, originals={**data.originals, "train": Chained(data.originals["train"], texts)})
