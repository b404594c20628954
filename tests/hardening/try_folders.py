"""A damaged run folder is refused in one line, or what was damaged does not matter and the answer is the same."""

import json
import math
import random
import shutil
from functools import cache
from pathlib import Path

from hardening.campaign import Verdict
from hardening.door import Answer, Call, Unacceptable, call, empty_folder, require_tidy
from hardening.folders import Damage, damage, unfinish
from hardening.runs import TINY, Runs
from training_support import weights

TEXTS = ["great film", "", "an awful one"]
FAST = ["--beam", "1", "--extra_length", "2"]


def doors(runs: Runs) -> dict[str, tuple[Path, list[str]]]:
    """The run that each door is tried on, and what is asked of the copy of it, `run`."""
    score = ["--file", str(runs.table), "--json", "--output", "out"]
    return {
        "predict": (runs.words, ["predict", "run", *TEXTS, "--json"]),
        "evaluate": (runs.words, ["evaluate", "run", *score]),
        "translate": (runs.translator, ["translate", "run", "one two", "three", *FAST]),
        "explain": (runs.words, ["explain", "run", "great film", "--output", "out.html"]),
        "export": (runs.words, ["export", "run", "--format", "hf", "--output", "out"]),
        "average": (runs.words, ["average", "run", "--last", "2", "--output", "out"]),
        "report": (runs.words, ["report", "run", "--output", "out.html"]),
        "train": (runs.words, [*training(runs)]),
    }


SHARES = {
    "predict": 30,
    "evaluate": 12,
    "translate": 14,
    "explain": 4,
    "export": 8,
    "average": 12,
    "report": 8,
    "train": 8,
}


def training(runs: Runs) -> list[str]:
    """The command that trained `words`, to go on with in the copy."""
    more = ["--training.save_steps=1", "--training.keep=3", "--data.vocab_size=200"]
    return ["train", "--data.path", str(runs.table), *TINY, *more, "--output", "run"]


def attempt(runs: Runs, call: Call, draw: random.Random) -> Verdict:
    door = draw.choices(list(SHARES), list(SHARES.values()))[0]
    origin, words = doors(runs)[door]
    fresh_copy(origin)
    if door == "train":
        unfinish(Path("run"))
    done = damage(draw, Path("run"), in_checkpoint=door in ("average", "train") and draw.random() < 0.8)
    try:
        answer = call(words)
        require_tidy(Path())
        check(runs, door, done, answer)
    except Exception as error:
        raise Unacceptable(f"{door}, {done}: {error}") from error
    return "right" if answer.code == 0 else "error"


def fresh_copy(origin: Path) -> None:
    empty_folder()
    shutil.copytree(origin, "run")


def check(runs: Runs, door: str, done: Damage, answer: Answer) -> None:
    written = {"evaluate": "out", "explain": "out.html", "export": "out", "average": "out", "report": "out.html"}
    if door in written and Path(written[door]).exists() != (answer.code == 0):
        raise Unacceptable(f"exit code {answer.code} ({answer.told}), but {written[door]} is not so")
    if answer.code == 2:
        return
    if door == "train":
        if not done.summed and weights(Path("run")) != weights(runs.words):
            raise Unacceptable("it went on and ended with other weights")
    elif door in ("predict", "evaluate", "translate", "explain") and not done.summed:
        if answer.out != undamaged(runs, door):
            raise Unacceptable(f"another answer: {answer.out}")
    elif door == "predict":
        found = [json.loads(line)["probability"] for line in answer.lines]
        if len(found) != len(TEXTS) or not all(math.isfinite(number) for number in found):
            raise Unacceptable(f"no probabilities: {found}")


@cache
def undamaged(runs: Runs, door: str) -> str:
    origin, words = doors(runs)[door]
    fresh_copy(origin)
    return call(words).out
