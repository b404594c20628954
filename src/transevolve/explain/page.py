"""Renders an observation as a self-contained web page."""

import base64
from typing import Any

import numpy as np

from ..core.figures import TIMES
from ..core.pages import render
from .observe import Observation
from .projection import apart, project

MOST_CLASSES = 8


def explanation_page(seen: Observation, limit: int, evolves: bool, approximate: bool) -> str:
    """The page; matrices and particles show the first `limit` tokens."""
    shown = min(limit, len(seen.tokens))
    best = seen.prediction
    return render(
        "explain.html",
        title=f"{seen.labels[best]}: {' '.join(seen.tokens[:12])}",
        verdict=f"{seen.labels[best]} ({100 * seen.readout[-1, best]:.1f} %)",
        depths=len(seen.depths),
        notes=" ".join(_notes(seen, shown, approximate)),
        drift=_drift_sentence(evolves),
        data=_data(seen, shown, evolves),
    )


def _notes(seen: Observation, shown: int, approximate: bool) -> list[str]:
    notes = []
    if shown < len(seen.tokens):
        notes.append(f"The model read all {len(seen.tokens)} tokens; pictures show the first {shown}.")
    if seen.truncated:
        notes.append(f"The text was longer than the model reads; it was cut at {len(seen.tokens)} tokens.")
    unseen = np.flatnonzero((seen.attention == 0).all((0, 1, 2)))
    if len(unseen):
        words = ", ".join(f"“{token}”" for token in dict.fromkeys(seen.tokens[i] for i in unseen))
        notes.append(f"Not in any training text, so the model ignores it: {words}.")
    if approximate:
        notes.append("This model approximates attention by random features; this page shows the approximation.")
    return notes


def _drift_sentence(evolves: bool) -> str:
    if not evolves:
        return "This model's attention does not evolve: all depths of a block share one attention, without drift."
    return (
        "Attention is computed once per block; after that, each depth only multiplies it by one factor per attended"
        f" token. The number is the typical size of that factor: {TIMES}1.0 changes nothing, {TIMES}3 makes some tokens"
        " three times as visible and others a third. Click a field to see its attention above."
    )


def _view(states: np.ndarray, common: bool) -> dict[str, Any]:
    """The position of each token at each depth, with or without the motion common to all tokens."""
    points, kept = project(states if common else apart(states))
    motion = "The motion common to all tokens is " + ("kept." if common else "removed, so that differences show.")
    flat = f"The plane keeps {100 * kept:.0f} % of the variance in {states.shape[-1]} dimensions."
    name = "with their common motion" if common else "relative to each other"
    return {"name": name, "sentence": f"{motion} {flat}", "points": _rounded(points, 4)}


def strength(seen: Observation) -> np.ndarray:
    """The drift of each depth and head: the standard deviation of b^l over the keys."""
    return seen.drift.std(-1)


def _data(seen: Observation, shown: int, evolves: bool) -> dict[str, Any]:
    attention = seen.attention[:, :, :shown, :shown]
    packed = np.round(attention.clip(0, 1) * 65535).astype("<u2")
    classes = np.sort(np.argsort(-seen.readout.max(0), kind="stable")[:MOST_CLASSES])
    left_out = len(seen.labels) - len(classes)
    moving = strength(seen)
    return {
        "tokens": seen.tokens[:shown],
        "labels": [seen.labels[c] for c in classes],
        "left_out": f" The {left_out} least likely classes are not drawn." if left_out else "",
        "readout": _rounded(seen.readout[:, classes], 4),
        "depths": seen.depths,
        "heads": attention.shape[1],
        "head": int(moving.mean(0).argmax()),
        "views": [_view(seen.states[:, :shown], common) for common in (False, True)],
        "attention": base64.b64encode(packed.tobytes()).decode("ascii"),
        "largest": _rounded(attention.max((0, 2, 3)).clip(1e-6), 5),
        "drift": _rounded(seen.drift[:, :, :shown], 4),
        "strength": _rounded(moving, 4),
        "evolves": evolves,
    }


def _rounded(values: np.ndarray, digits: int) -> list:
    return np.round(values.astype(float), digits).tolist()
