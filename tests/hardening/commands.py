"""Valid command lines of every command on small data, checks of their output, and invalid ones made from them."""

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hardening.bad_values import TYPED, rearranged, typo
from hardening.program import Answer, Unacceptable, require_tidy
from hardening.runs import LABELS, TINY, Runs
from transevolve.runs.storage import check_manifest

SMALL_BENCH = ("--lengths=8", "--batch=1", "--systems", "fullFF-1", "--threads=1", "--output=out", "--repeats=1")
# Values with which valid settings would take long or fill the memory, and names that need the network.
UNTOUCHED = (
    "epochs",
    "max_steps",
    "hub",
    "hub_config",
    "hidden_size",
    "intermediate_size",
    "block_depth",
    "num_blocks",
)
UNTOUCHED += ("workers", "threads", "compile", "memory", "deepspeed", "lengths", "batch", "repeats", "warmup", "vocab")


@dataclass(frozen=True)
class Command:
    """Words that succeed, and a check of what they wrote and printed; `written` is the path that it all goes to.

    `always` comes last, whatever happens to the words: what keeps a benchmark small, or from running at all.
    """

    words: list[str]
    look: Callable[[Answer], bool]
    written: str | None = None
    always: tuple[str, ...] = ()


def commands(runs: Runs) -> list[Command]:
    words, pairs = str(runs.words), ["--source", str(runs.sources), "--reference", str(runs.targets)]
    fast = ["--beam", "1", "--extra_length", "2"]
    return [
        Command(["train", "--data.path", str(runs.table), *TINY, "--output", "out"], _is_run, "out"),
        Command(["predict", words, "good film", "bad film", "--json"], _are_predictions),
        Command(["predict", words, "--file", str(runs.table), "--column", "comment"], _are_predictions),
        Command(["evaluate", words, "--file", str(runs.table), "--json", "--output", "out"], _is_scored, "out"),
        Command(["evaluate", words, "--split", "validation", "--output", "out", "--batch_tokens", "9"], _spoke, "out"),
        Command(["evaluate", str(runs.translator), *pairs, *fast, "--json", "--output", "out"], _is_scored, "out"),
        Command(["translate", str(runs.translator), "one two", *fast], _spoke),
        Command(["translate", str(runs.translator), "--file", str(runs.sources), *fast, "--json"], _spoke),
        Command(["average", words, "--last", "2", "--output", "out"], _is_whole, "out"),
        Command(["average", words, "--last", "1", "--scores", "validation"], _spoke),
        Command(["explain", words, "good film", "--output", "out.html", "--tokens", "9"], _is_page, "out.html"),
        Command(
            ["explain", words, "--error", "--file", str(runs.table), "--limit", "3", "--output", "out.png"], _spoke
        ),
        Command(["report", words, str(runs.translator), "--output", "out.html"], _is_page, "out.html"),
        Command(["export", words, "--format", "hf", "--output", "out", "--rounds", "0"], _is_exported, "out"),
        Command(["recipes"], _spoke),
        Command(["recipes", "cpu/agnews"], _spoke),
        Command(["systems"], _spoke),
        Command(["sweep", "no/such", "--output", "out", "--set", "training.epochs=none"], _never),
        Command(["bench", "speed", *SMALL_BENCH, "--warmup", "0"], _spoke, always=SMALL_BENCH),
        Command(["bench", "decode", "--systems", "fullFF-1", "--output", "out"], _never, always=("--device=none",)),
        Command(["bench", "memory", "--systems", "transformer", "--output", "out"], _never, always=("--device=none",)),
        Command(["doctor", "--batch", "1"], _spoke),
    ]


def wrong(draw: random.Random, right: list[str]) -> list[str]:
    """The arguments of a command with one to three errors."""
    words = list(right)
    for _ in range(draw.choice([1, 1, 1, 2, 3])):
        kind = draw.random()
        values = [i for i in range(2, len(words)) if not words[i - 1].startswith(_flags(UNTOUCHED))]
        values = [i for i in values if not words[i].startswith(_flags(UNTOUCHED))]
        if kind < 0.45 and values:
            place = draw.choice(values)
            name, equals, _ = words[place].partition("=")
            words[place] = f"{name}={draw.choice(TYPED)}" if equals and name[:2] == "--" else draw.choice(TYPED)
        elif kind < 0.6 and len(words) > 1:
            place = draw.randrange(1, len(words))
            words[place] = typo(draw, words[place])
        elif kind < 0.8:
            words[1:] = rearranged(draw, words[1:])
        elif kind < 0.97:
            words.insert(draw.randint(1, len(words)), draw.choice(["--", "-x", "--no_such=1", "--data", *TYPED]))
        else:
            words[0] = typo(draw, words[0])
    return words


def _flags(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"--{group}{name}" for name in names for group in ("", "data.", "model.", "training."))


def look(command: Command, words: list[str], answer: Answer, folder: Path) -> None:
    """A successful command has written correct and complete output; a failed one has left no partial files."""
    require_tidy(folder)
    if "-h" in words or "--help" in words:
        return
    written = None if command.written is None else folder / command.written
    if answer.code == 0 and words == command.words and not command.look(answer):
        raise Unacceptable(f"not what was asked for: {answer.out[-500:]}")
    if answer.code == 2 and words == command.words and command.look is not _never:
        raise Unacceptable(f"a right command is refused: {answer.message}")
    if answer.code == 2 and written is not None and written.exists():
        left = [path.name for path in written.iterdir()] if written.is_dir() else [written.name]
        if words[0] != "train" or "recipe.yaml" not in left:
            raise Unacceptable(f"it failed ({answer.message}) and left {left}")


def _spoke(answer: Answer) -> bool:
    return bool(answer.out.strip())


def _never(answer: Answer) -> bool:
    return False


def _is_run(answer: Answer) -> bool:
    check_manifest(Path("out"))
    return {"results.json", "curves.png", "recipe.yaml", "metrics.jsonl"} <= {p.name for p in Path("out").iterdir()}


def _are_predictions(answer: Answer) -> bool:
    found = [json.loads(line)["label"] if line[0] == "{" else line.split("\t")[0] for line in answer.lines]
    return bool(found) and set(found) <= LABELS


def _is_scored(answer: Answer) -> bool:
    (path,) = Path("out").glob("*.evaluation.json")
    return json.loads(answer.out) == json.loads(path.read_text(encoding="utf-8"))


def _is_whole(answer: Answer) -> bool:
    check_manifest(Path("out"))
    return (Path("out") / "recipe.yaml").is_file()


def _is_page(answer: Answer) -> bool:
    return Path("out.html").read_text(encoding="utf-8").rstrip().endswith("</html>")


def _is_exported(answer: Answer) -> bool:
    return {"config.json", "model.safetensors", "README.md"} <= {path.name for path in Path("out").iterdir()}
