"""Runs the fenced blocks of a page in order, in a folder with the files that they name."""

import contextlib
import io
import json
import os
import re
import shlex
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from training_support import write_csv
from transevolve.cli import main, parse
from transevolve.config.recipe import Recipe
from transevolve.kinds import resolve
from transevolve.training.hf_arguments import check_training

ROOT = Path(__file__).parent.parent
FENCE = re.compile(r'^```(\w*)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
SMALL = ["--model.hidden_size=16", "--model.num_attention_heads=2", "--model.intermediate_size=32"]
SMALL += ["--model.block_depth=2", "--training.epochs=1", "--training.extra_length=3"]
SHORTER = {"export": ["--rounds=1"], "translate": ["--extra_length=3"], "evaluate": ["--extra_length=3"]}
GENERATED = ["--data.train_rows=64", "--data.validation_rows=32", "--data.test_rows=32", "--data.cache=cache"]


class Block(NamedTuple):
    language: str
    title: str
    content: str

    def lines(self, program: str) -> list[list[str]]:
        """The words of each line that starts with a program's name; a backslash continues a line."""
        lines = self.content.replace("\\\n", " ").splitlines()
        return [shlex.split(line, comments=True) for line in lines if line.startswith(f"{program} ")]


def blocks(page: Path) -> list[Block]:
    return [Block(*found) for found in FENCE.findall(page.read_text())]


def commands(page: Path) -> list[list[str]]:
    """The arguments of the `transevolve` commands on a page."""
    return [words[1:] for block in blocks(page) for words in block.lines("transevolve")]


def write_files(folder: Path) -> Path:
    """The files that pages name: a table, two aligned files, a folder of tables, and one of aligned files."""
    write_csv(folder / "my.csv", rows=60)
    (folder / "texts.txt").write_text("a fine film\na weak story\n" * 10)
    (folder / "multi30k").mkdir()
    for language, words in (("en", "one two three four"), ("de", "eins zwei drei vier")):
        lines = "".join(" ".join(words.split()[: 1 + n % 4]) + "\n" for n in range(60))
        (folder / f"a.{language}").write_text(lines)
        for split in ("train", "val", "test_2016_flickr"):
            (folder / "multi30k" / f"{split}.{language}").write_text(lines)
    (folder / "ag_news").mkdir()
    for split in ("train", "test"):
        rows = [json.dumps({"text": f"news of the day {n % 7}", "label": n % 4}) for n in range(80)]
        (folder / "ag_news" / f"{split}.jsonl").write_text("\n".join(rows) + "\n")
    return folder


def recipe_of(words: list[str], command: str = "train") -> Recipe:
    """The recipe of a `transevolve train` command, checked as in training."""
    recipe = parse([command, *words])[1].load()
    resolve(recipe)
    check_training(recipe.training)
    return recipe


def run(words: list[str]) -> str:
    """Runs a command with small settings (width 16, one epoch, short translations); returns its output."""
    small = list(words)
    if words[0] in ("train", "pretrain"):
        recipe = recipe_of(words[1:], words[0])
        if recipe.data.hub is not None:
            return f"parsed: {recipe.data.hub} is not downloaded"
        small += [*SMALL, *(GENERATED if recipe.data.task in ("listops", "docstrings") else [])]
    if words[0] == "serve":
        return f"parsed: a server runs until it is stopped, {parse(words)[1].run}"
    small += SHORTER.get(words[0], [])
    reported, complained = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(reported), contextlib.redirect_stderr(complained):
        code = main(small)
    assert code == 0, (shlex.join(small), complained.getvalue()[-2000:])
    assert reported.getvalue(), shlex.join(small)
    return reported.getvalue()


def train_case(recipe: Path) -> str | None:
    """Trains a case of a sweep in this process; separate processes would take minutes longer."""
    return None if main(["train", str(recipe), *SMALL]) == 0 else "failed"


def follow(page: Path) -> None:
    """Runs the blocks of a page in the current folder."""
    names: dict[str, Any] = {}
    for block in blocks(page):
        if block.title:
            Path(block.title).write_text(block.content)
        elif block.language == "python":
            exec(compile(block.content, page.name, "exec"), names)
        for words in block.lines("transevolve"):
            run(words[1:])
        for words in block.lines("torchrun"):
            at = words.index("transevolve")
            assert words[at - 1 : at + 2] == ["-m", "transevolve", "train"], words
            with mock.patch.dict(os.environ, WORLD_SIZE="8"):
                recipe_of(words[at + 2 :])
