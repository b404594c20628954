"""A damaged run folder is refused in one line, or the damage has no effect and the output is the same."""

import json
import math
import random
import shutil
from functools import cache
from pathlib import Path

from hardening.campaign import Verdict
from hardening.folders import Damage, damage, unfinish
from hardening.program import Answer, Call, Unacceptable, call, empty_folder, require_tidy
from hardening.runs import TINY, Runs
from training_support import weights

TEXTS = ["great film", "", "an awful one"]
FAST = ["--beam", "1", "--extra_length", "2"]


def commands(runs: Runs) -> dict[str, tuple[Path, list[str]]]:
    """For each command the run it is tried on, and its arguments for the copy of that run, `run`."""
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
    """The command that trained `words`, to resume in the copy."""
    more = ["--training.save_steps=1", "--training.keep=3", "--data.vocab_size=200"]
    return ["train", "--data.path", str(runs.table), *TINY, *more, "--output", "run"]


def attempt(runs: Runs, call: Call, draw: random.Random) -> Verdict:
    command = draw.choices(list(SHARES), list(SHARES.values()))[0]
    origin, words = commands(runs)[command]
    fresh_copy(origin)
    if command == "train":
        unfinish(Path("run"))
    done = damage(draw, Path("run"), in_checkpoint=command in ("average", "train") and draw.random() < 0.8)
    try:
        answer = call(words)
        require_tidy(Path())
        check(runs, command, done, answer)
    except Exception as error:
        raise Unacceptable(f"{command}, {done}: {error}") from error
    return "right" if answer.code == 0 else "error"


def fresh_copy(origin: Path) -> None:
    empty_folder()
    shutil.copytree(origin, "run")


def check(runs: Runs, command: str, done: Damage, answer: Answer) -> None:
    written = {"evaluate": "out", "explain": "out.html", "export": "out", "average": "out", "report": "out.html"}
    if command in written and Path(written[command]).exists() != (answer.code == 0):
        raise Unacceptable(f"exit code {answer.code} ({answer.message}), but {written[command]} is not so")
    if answer.code == 2:
        return
    if command == "train":
        if not done.summed and weights(Path("run")) != weights(runs.words):
            raise Unacceptable("it went on and ended with other weights")
    elif command in ("predict", "evaluate", "translate", "explain") and not done.summed:
        if answer.out != undamaged(runs, command):
            raise Unacceptable(f"another answer: {answer.out}")
    elif command == "predict":
        found = [json.loads(line)["probability"] for line in answer.lines]
        if len(found) != len(TEXTS) or not all(math.isfinite(number) for number in found):
            raise Unacceptable(f"no probabilities: {found}")


@cache
def undamaged(runs: Runs, command: str) -> str:
    origin, words = commands(runs)[command]
    fresh_copy(origin)
    return call(words).out
