"""Data files: all rows that a simple reader finds are used, in order, or the error is one line."""

import json
import random
from pathlib import Path

from hardening.campaign import Verdict
from hardening.program import Answer, Call, Unacceptable, empty_folder, require_tidy
from hardening.runs import LABELS, TINY, Runs
from hardening.streams import check_predictions
from hardening.tables import File, draw_file, is_label, naive_rows, texts_of

TABLES = ("csv", "tsv", "jsonl", "parquet")


def attempt(runs: Runs, call: Call, draw: random.Random) -> Verdict:
    empty_folder()
    attempted = draw.choices(ATTEMPTS, [80, 10, 5, 5])[0]
    answer = attempted(runs, call, draw)
    require_tidy(Path())
    return "right" if answer.code == 0 else "error"


def written(draw: random.Random, *formats: str) -> File:
    file = draw_file(draw, formats) if formats else draw_file(draw)
    Path(file.name).write_bytes(file.content)
    return file


def predicted(runs: Runs, call: Call, draw: random.Random) -> Answer:
    file = written(draw)
    run = draw.choice([runs.words, runs.characters])
    answer = call(["predict", str(run), "--file", file.name, "--json"])
    require_accepted(file, answer)
    if answer.code == 0:
        found = [json.loads(line)["text"] for line in answer.lines]
        rows = naive_rows(file)
        if rows is None or tuple(found) not in (texts_of(rows) or {()}):
            raise Unacceptable(f"read as {found}, and by a plain reader as {rows}: {file}")
        check_predictions(answer.lines, found, LABELS, as_json=True)
    return answer


def evaluated(runs: Runs, call: Call, draw: random.Random) -> Answer:
    file = written(draw, *TABLES)
    columns = ["--text", "text", "--label", "label"]
    answer = call(["evaluate", str(runs.words), "--file", file.name, *columns, "--json", "--output", "out"])
    require_accepted(file, answer)
    if Path("out").exists() != (answer.code == 0):
        raise Unacceptable(f"exit code {answer.code} ({answer.message}), but out is not so")
    if answer.code == 0:
        rows = naive_rows(file) or []
        found = json.loads(answer.out)
        labels = [str(row["label"]).strip() for row in rows if is_label(row.get("label"))]
        counts = {score["label"]: score["rows"] for score in found["classes"]}
        if found["count"] != len(labels) or counts != {label: labels.count(label) for label in LABELS}:
            raise Unacceptable(f"{file} has {labels}, counted as {counts}")
    return answer


def learned(runs: Runs, call: Call, draw: random.Random) -> Answer:
    file = written(draw, *TABLES)
    columns = ["--data.text=text", "--data.label=label", "--data.validation=0.5"]
    answer = call(["train", f"--data.path={file.name}", *columns, *TINY, "--output=out"])
    if answer.code == 0:
        splits = json.loads(Path("out/results.json").read_text())["data"]["splits"]
        counted = sum(split["rows"] for split in splits.values())
        if counted != len(naive_rows(file) or []):
            raise Unacceptable(f"{counted} rows of {file}")
    elif Path("out").exists() and not Path("out/recipe.yaml").exists():
        raise Unacceptable(f"it failed ({answer.message}) and left something")
    return answer


def translated(runs: Runs, call: Call, draw: random.Random) -> Answer:
    """Two aligned files; one or both are damaged."""
    sources, targets = draw_file(draw, ("txt",)), draw_file(draw, ("txt",))
    same = draw.random() < 0.7
    Path("a.en").write_bytes(sources.content)
    Path("a.de").write_bytes(sources.content if same else targets.content)
    fast = ["--beam", "1", "--extra_length", "1", "--json", "--output", "out"]
    answer = call(["evaluate", str(runs.translator), "--source", "a.en", "--reference", "a.de", *fast])
    if answer.code == 0:
        lines = Path("out/a.en.translations.txt").read_text(encoding="utf-8").removesuffix("\n").split("\n")
        expected = len(naive_rows(File("a.en", sources.content, True)) or [])
        if json.loads(answer.out)["lines"] != expected or len(lines) != expected:
            raise Unacceptable(f"{len(lines)} translations of {sources}")
    return answer


ATTEMPTS = [predicted, evaluated, learned, translated]


def require_accepted(file: File, answer: Answer) -> None:
    if file.right and answer.code != 0:
        raise Unacceptable(f"{file} is right, and refused: {answer.message}")
