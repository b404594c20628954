"""Makes a large corpus of a small one: lines again and again, each time with other words in two places, all different.

python results/data/perturbed.py pairs europarl/train.en.gz europarl/train.de.gz --rows 2000000 --output pairs
python results/data/perturbed.py table ag_news/train.jsonl.gz --rows 2000000 --output table
"""

import argparse
import csv
import gzip
import json
import random
from collections.abc import Iterator
from pathlib import Path

WORDS_CHANGED = 2


def changed(line: str, words: list[str], draw: random.Random) -> str:
    """The line with other words, drawn from all texts, in two places."""
    found = line.split()
    for _ in range(WORDS_CHANGED):
        found[draw.randrange(len(found))] = draw.choice(words)
    return " ".join(found)


def different(rows: list[tuple[str, ...]], count: int) -> Iterator[tuple[str, ...]]:
    """As many rows as asked for, first those that there are."""
    draw, seen = random.Random(0), set[int]()
    words = [[word for row in rows for word in row[side].split()] for side in range(len(rows[0]))]
    known_rows = iter(rows)
    while len(seen) < count:
        row = next(known_rows, None) or tuple(
            changed(text, known, draw) for text, known in zip(draw.choice(rows), words, strict=True)
        )
        if hash(row) not in seen:
            seen.add(hash(row))
            yield row


def lines_of(file: str) -> list[str]:
    with gzip.open(file, "rt", encoding="utf-8", newline="\n") as stream:
        return [line.strip() for line in stream]


def write_pairs(files: list[str], count: int, output: Path) -> None:
    rows = [row for row in zip(*map(lines_of, files), strict=True) if all(row)]
    with (
        open(output / "train.source", "w", encoding="utf-8") as source,
        open(output / "train.target", "w", encoding="utf-8") as target,
    ):
        for first, second in different(rows, count):
            source.write(f"{first}\n")
            target.write(f"{second}\n")


def write_table(file: str, count: int, output: Path) -> None:
    """A table of texts and labels; every label has as many rows."""
    by_label: dict[str, list[tuple[str, ...]]] = {}
    for row in map(json.loads, lines_of(file)):
        by_label.setdefault(str(row["label"]), []).append((row["text"],))
    streams = [different(rows, count // len(by_label)) for rows in by_label.values()]
    with open(output / "train.csv", "w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["text", "label"])
        for rows in zip(*streams, strict=True):
            writer.writerows((text, label) for (text,), label in zip(rows, by_label, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=["pairs", "table"])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    if options.kind == "pairs":
        write_pairs(options.files, options.rows, options.output)
    else:
        write_table(options.files[0], options.rows, options.output)


if __name__ == "__main__":
    main()
