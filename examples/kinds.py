"""Writes a generated table of each kind of task: python examples/kinds.py FOLDER. The same files every time."""

import random
import sys
from pathlib import Path

WORTH = {"broken": -30, "old": -10, "plain": 0, "new": 15, "rare": 40}
TOPICS = {
    "sport": ["goal", "match", "team", "coach", "league", "score"],
    "money": ["bank", "price", "market", "loan", "profit", "stock"],
    "art": ["painting", "song", "museum", "novel", "actor", "stage"],
    "health": ["doctor", "virus", "sleep", "vaccine", "heart", "clinic"],
}
FILLER = ["the", "a", "of", "and", "to", "in", "it", "was", "for", "on", "with", "that", "this", "from", "they"]
FIRST = ["Anna", "Bob", "Carla", "David", "Elena", "Frank", "Greta", "Hugo", "Irene", "Jonas", "Karin", "Luis"]
FIRST += ["Maria", "Nils", "Olga", "Paul"]
LAST = ["Smith", "Jones", "Meyer", "Rossi", "Novak", "Silva", "Dubois", "Larsen", "Costa", "Weber", "Moreau", "Keller"]
PLACES = ["Paris", "Rome", "Oslo", "New York", "Bonn", "Lima", "San Marino", "Cairo", "Tokyo", "Hong Kong"]
FIRMS = ["Acme", "Globex", "Initech", "Umbrella", "Hooli", "Stark"]
TEMPLATES = [
    "{PER} lives in {LOC} .",
    "{PER} works for {ORG} in {LOC} .",
    "{ORG} bought a house in {LOC} from {PER} .",
    "In {LOC} , {PER} met {PER} .",
    "Yesterday {ORG} said that {PER} left .",
    "It was cold in {LOC} .",
]


def filled(draw: random.Random, words: list[str], count: int) -> str:
    found = [*words, *draw.choices(FILLER, k=count)]
    draw.shuffle(found)
    return " ".join(found)


def regression(draw: random.Random) -> str:
    """A price of 100 plus what the words are worth; `not` before a word turns its sign."""
    text, price = [], 100.0
    for word in draw.choices(list(WORTH), k=draw.randint(1, 4)):
        negated = draw.random() < 0.3
        price += -WORTH[word] if negated else WORTH[word]
        text += [*draw.choices(FILLER, k=draw.randint(0, 2)), *(["not"] if negated else []), word]
    return f"{' '.join(text)}\t{price + draw.gauss(0, 2):.2f}"


def multilabel(draw: random.Random) -> str:
    topics = [topic for topic, share in zip(TOPICS, (0.5, 0.3, 0.2, 0.1), strict=True) if draw.random() < share]
    words = [word for topic in topics for word in draw.sample(TOPICS[topic], 2)]
    return f"{filled(draw, words, 6)}\t{'|'.join(topics)}"


def pair(draw: random.Random) -> str:
    """Do two sentences have one topic? Each by itself says nothing."""
    first, other = draw.sample(list(TOPICS), 2)
    same = draw.random() < 0.5
    sides = [filled(draw, [draw.choice(TOPICS[topic])], 3) for topic in (first, first if same else other)]
    return f"{sides[0]}\t{sides[1]}\t{'same' if same else 'different'}"


def tagged(draw: random.Random) -> str:
    lines = []
    for word in draw.choice(TEMPLATES).split():
        kind = word.strip("{}")
        if kind == word:
            lines.append(f"{word} O")
            continue
        person = f"{draw.choice(FIRST)} {draw.choice(LAST)}" if draw.random() < 0.6 else draw.choice(FIRST)
        name = {"PER": person, "LOC": draw.choice(PLACES), "ORG": draw.choice(FIRMS)}[kind]
        lines += [f"{part} {'I' if place else 'B'}-{kind}" for place, part in enumerate(name.split())]
    return "\n".join(lines) + "\n"


def imbalanced(draw: random.Random) -> str:
    """One row in twenty is of the rare class; one of its words is in one other row of a hundred too."""
    rare = draw.random() < 0.05
    marked = rare or draw.random() < 0.01
    return f"{filled(draw, ['prize'] if marked else ['letter'], 9)}\t{'spam' if rare else 'mail'}"


def long(draw: random.Random) -> str:
    """Six hundred words, of which the last fifty have the topic."""
    topic = draw.choice(list(TOPICS))
    start = draw.choices(FILLER, k=draw.randint(500, 600))
    return f"{' '.join(start)} {filled(draw, draw.choices(TOPICS[topic], k=12), 38)}\t{topic}"


TABLES = {
    "regression.tsv": ("text\tprice", regression, 2000),
    "multilabel.tsv": ("text\ttopics", multilabel, 2000),
    "pairs.tsv": ("first\tsecond\tlabel", pair, 4000),
    "tokens.conll": (None, tagged, 1000),
    "imbalanced.tsv": ("text\tlabel", imbalanced, 2000),
    "long.tsv": ("text\tlabel", long, 400),
}


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, (header, row, count) in TABLES.items():
        draw = random.Random(name)
        lines = [*([header] if header else []), *(row(draw) for _ in range(count))]
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
