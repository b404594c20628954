"""Small tables of each kind, learned in seconds."""

import json
import random
from pathlib import Path

TOPICS = {"sport": ["goal", "match", "team"], "money": ["bank", "price", "market"], "art": ["paint", "song", "museum"]}
NAMES, PLACES = ["anna", "bob", "carl", "dora"], ["paris", "rome", "oslo", "bonn"]
THINGS = ["cat", "dog", "sun", "car", "red", "sea"]


def labelled_sets(rows: int = 120, seed: int = 0) -> list[tuple[str, list[str]]]:
    draw, found = random.Random(seed), []
    for _ in range(rows):
        topics = [topic for topic in TOPICS if draw.random() < 0.4]
        words = [word for topic in topics for word in draw.sample(TOPICS[topic], 2)]
        words += draw.choices(["the", "a", "of", "and"], k=3)
        draw.shuffle(words)
        found.append((" ".join(words), topics))
    return found


def write_separated(path: Path, separator: str = "|", **options) -> Path:
    rows = [f"{text},{separator.join(topics)}" for text, topics in labelled_sets(**options)]
    path.write_text("\n".join(["text,topics", *rows]) + "\n")
    return path


def write_wide(path: Path, **options) -> Path:
    rows = [f"{text},{','.join(str(int(t in topics)) for t in TOPICS)}" for text, topics in labelled_sets(**options)]
    path.write_text("\n".join([f"text,{','.join(TOPICS)}", *rows]) + "\n")
    return path


def write_pairs(path: Path, rows: int = 160, seed: int = 0, numbers: bool = False) -> Path:
    """Whether both texts name the same thing; a single text does not determine the label."""
    draw, lines = random.Random(seed), ["premise\thypothesis\tlabel"]
    for number in range(rows):
        first = draw.choice(THINGS[:3])
        same = number % 2 == 0
        second = first if same else draw.choice([thing for thing in THINGS[:3] if thing != first])
        label = (0.5 if same else -0.5) if numbers else ("same" if same else "other")
        lines.append(f"{first}\t{second}\t{label}")
    path.write_text("\n".join(lines) + "\n")
    return path


def sentences(rows: int = 100, seed: int = 0) -> list[list[tuple[str, str]]]:
    draw, found = random.Random(seed), []
    for _ in range(rows):
        name, place = draw.choice(NAMES), draw.choice(PLACES)
        found.append([(name, "B-PER"), (draw.choice(["smith", "jones"]), "I-PER"), *(("lives", "O"), ("in", "O"))])
        found[-1] += [(place, "B-LOC"), (".", "O")]
    return found


def write_conll(path: Path, **options) -> Path:
    lines = ["\n".join(f"{word} _ {tag}" for word, tag in sentence) for sentence in sentences(**options)]
    path.write_text("-DOCSTART- O\n\n" + "\n\n".join(lines) + "\n")
    return path


def write_tagged(path: Path, **options) -> Path:
    rows = [{"tokens": [w for w, _ in one], "tags": [t for _, t in one]} for one in sentences(**options)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def write_long(path: Path, rows: int = 80, seed: int = 0) -> Path:
    """The decisive word is at the end of a text of five windows of 16 tokens."""
    draw, lines = random.Random(seed), ["text,label"]
    for number in range(rows):
        label = ("good", "bad")[number % 2]
        text = [*draw.choices(["the", "a", "of"], k=draw.randint(40, 60)), *[label] * 8]
        lines.append(f"{' '.join(text)},{label}")
    path.write_text("\n".join(lines) + "\n")
    return path


def replace_line(path: Path, number: int, line: str) -> Path:
    lines = path.read_text().split("\n")
    lines[number - 1] = line
    path.write_text("\n".join(lines))
    return path
