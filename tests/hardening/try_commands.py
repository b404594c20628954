"""Any arguments and any recipe: the command succeeds, or the error is one line and no files are left."""

import random
from pathlib import Path

from hardening.bad_values import TYPED
from hardening.campaign import Verdict
from hardening.commands import commands, look, wrong
from hardening.program import Call, Unacceptable, empty_folder, require_tidy
from hardening.recipes import draw_recipe, draw_sweep
from hardening.runs import Runs
from transevolve.config.files import dotted
from transevolve.config.recipe import Recipe

NETWORK = ("data.hub", "data.hub_config")


def attempt(runs: Runs, call: Call, draw: random.Random) -> Verdict:
    """In an empty folder: words, flags on data that are not there, a recipe, or a sweep."""
    kind = draw.random()
    empty_folder()
    if kind < 0.35:
        return attempt_words(runs, call, draw)
    if kind < 0.65:
        return attempt_flags(call, draw)
    sweep = kind > 0.9
    Path("file.yaml").write_bytes(draw_sweep(draw) if sweep else draw_recipe(draw))
    words = ["sweep", "file.yaml"] if sweep else ["train", "file.yaml", "--data.path=nowhere", "--output=out"]
    return refused(call, words)


def attempt_words(runs: Runs, call: Call, draw: random.Random) -> Verdict:
    command = draw.choice(commands(runs))
    words = command.words if draw.random() < 0.03 else wrong(draw, command.words)
    answer = call([*words, *command.always])
    look(command, words, answer, Path())
    return "right" if answer.code == 0 else "error"


def attempt_flags(call: Call, draw: random.Random) -> Verdict:
    keys = [key for key in dotted(Recipe()) if key not in NETWORK]
    flags = [f"--{draw.choice(keys)}={draw.choice(TYPED)}" for _ in range(draw.randint(1, 4))]
    return refused(call, ["train", *flags, "--data.task=files", "--data.path=nowhere", "--output=out"])


def refused(call: Call, words: list[str]) -> Verdict:
    """There are no data, so the command must always fail, and leave no files."""
    answer = call(words)
    require_tidy(Path())
    if answer.code != 2 or Path("out").exists():
        raise Unacceptable(f"{answer.code}, {answer.message}: out is {'' if Path('out').exists() else 'not '}there")
    return "error"
