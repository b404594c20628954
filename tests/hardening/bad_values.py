"""Invalid values for flags and YAML, and small changes of valid ones."""

import random
from typing import TypeVar

T = TypeVar("T")

TYPED = [
    "", " ", "null", "~", "true", "yes", "no", "nan", "-nan", "inf", "-inf", "-1", "0", "-0.0", "1", "2", "1.5",
    "1e400", "1e-400", "-1e400", "9" * 40, "9" * 400, "9" * 5000, "0x10", "0o17", "1_000", "\uff11\uff12", "٣",
    "12:30:45", "2001-01-01", "1,5", "1 2", "[1, 2]", "[]", "{}", "{a: 1}", "{", "[", "]", "a: b", "1:", "- a",
    "'", '"', "|", ">", "!!python/object/apply:os.abort []", "!!python/name:os.abort", "!!binary abc",
    "!!timestamp x", "&a [*a]", "*a", "<<", "%TAG", "@x", "`", "\0", "\n", "\t", "\x1b", "\x85", "\u2028",
    "\udcff", "\ud800", "ünï", "日本", "👩‍👩‍👧", "x" * 5000, "--", "-", "=", "a=b", "..", ".", "%s", "${HOME}",
    "{0}", "None", "False", "small", "base", "fullFF-1", "files", "listops", "no/such/thing", "a\nb: c",
    "{a: 1, a: 2}",
]  # fmt: skip

WRITTEN = [
    "", "~", "true", "no", ".nan", ".inf", "-.inf", "-1", "0", "1.5", "1e400", "9" * 40, "9" * 400, "9" * 5000,
    "0x10", "1_000", "12:30:45", "2001-01-01", "2001-01-01 12:00:00", "[1, 2]", "[]", "{}", "{a: 1}",
    "{a: {b: {c: [1]}}}", "[[[[[]]]]]", "!!python/object/apply:os.abort []", "!!python/name:os.abort ''",
    "!!python/object/new:os.abort {}", "!!binary aGk=", "!!set {a, b}", "!!omap [a: 1]", "!!int x", "!!float x",
    "!!null x", "!unknown x", "&a [*a]", "*nowhere", "&x 1", "{[1]: 2}", "{? {a: 1} : 2}", "'unclosed",
    '"unclosed', "{unclosed", "[unclosed", '"\\ud800"', '"\\x00"', "ünï", "👩‍👩‍👧", "|\n    text", "a: b: c",
    "- a", "@", "`", "%", "\t", "? a", "'" + "x" * 5000 + "'", "[" * 200, "{a: " * 200,
]  # fmt: skip

DEEP = "[" * 120_000
BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join(f'*{before}' for _ in range(9))}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
MERGED = BOMB.replace("[x, x, x, x, x, x, x, x, x]", "{x: 1}").replace(" [", " {<<: [").replace("]\n", "]}\n")


def typo(draw: random.Random, word: str) -> str:
    """Removes, duplicates or changes a letter."""
    if not word:
        return "x"
    place = draw.randrange(len(word))
    return draw.choice(
        [
            word[:place] + word[place + 1 :],
            word[:place] + word[place] + word[place:],
            word[:place] + draw.choice("xZ0.-_é") + word[place + 1 :],
        ]
    )


def rearranged(draw: random.Random, items: list[T]) -> list[T]:
    """Removes, duplicates or moves an item, or truncates the end."""
    items = list(items)
    if not items:
        return items
    place = draw.randrange(len(items))
    kind = draw.randrange(4)
    if kind == 0:
        del items[place]
    elif kind == 1:
        items.insert(place, items[place])
    elif kind == 2:
        items.insert(draw.randrange(len(items)), items.pop(place))
    else:
        del items[place:]
    return items
