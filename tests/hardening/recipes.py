"""Recipes and sweep files with something wrong: a value, a key, the shape, the YAML, or the bytes."""

import json
import random

from ruamel.yaml.error import YAMLError

from hardening.bad_values import BOMB, DEEP, MERGED, TYPED, WRITTEN, rearranged, typo
from hardening.streams import damaged
from transevolve.config.files import bundled
from transevolve.core.yaml_files import parse_yaml


def draw_recipe(draw: random.Random) -> bytes:
    """One of the recipes that come with the package, mutated."""
    return _mutated(draw, draw.choice(list(bundled().values())).read_text(encoding="utf-8"))


def draw_sweep(draw: random.Random) -> bytes:
    """A bundled sweep, mutated; the recipe it names does not exist, so that nothing is trained."""
    text = draw.choice(list(bundled(sweeps=True).values())).read_text(encoding="utf-8")
    return _mutated(draw, text.replace("recipe: ", "recipe: no/"))


def _mutated(draw: random.Random, text: str) -> bytes:
    for _ in range(draw.choice([1, 1, 2, 3])):
        text = draw.choice(MUTATIONS)(draw, text)
    content = text.encode("utf-8", "surrogatepass")
    kind = draw.random()
    if kind < 0.06:
        return damaged(draw, content)
    if kind < 0.08:
        return text.encode("utf-16", "surrogatepass")
    if kind < 0.09:
        return b"\xef\xbb\xbf" + content
    return draw.randbytes(draw.randint(0, 200)) if kind < 0.11 else content


def _value(draw: random.Random, text: str) -> str:
    lines = text.split("\n")
    places = [i for i, line in enumerate(lines) if ": " in line and not line.lstrip().startswith("#")]
    if not places:
        return text
    place = draw.choice(places)
    key = lines[place].partition(":")[0]
    lines[place] = f"{key}: {draw.choice(WRITTEN)}"
    return "\n".join(lines)


def _key(draw: random.Random, text: str) -> str:
    lines = text.split("\n")
    place = draw.randrange(len(lines))
    indent = len(lines[place]) - len(lines[place].lstrip())
    key = draw.choice(["unknown", "1", "null", "[a]", "? x\n", "<<", "data", "training.epochs", "a.b", "é", "''"])
    lines.insert(place, " " * indent + f"{key}: {draw.choice(WRITTEN)}")
    return "\n".join(lines)


def _typo(draw: random.Random, text: str) -> str:
    lines = text.split("\n")
    place = draw.randrange(len(lines))
    lines[place] = typo(draw, lines[place])
    return "\n".join(lines)


def _lines(draw: random.Random, text: str) -> str:
    return "\n".join(rearranged(draw, text.split("\n")))


def _shape(draw: random.Random, text: str) -> str:
    """Replaces a section, or moves it to a wrong place."""
    try:
        content = parse_yaml(text)
    except YAMLError:
        return text
    if not isinstance(content, dict) or not content:
        return f"nested: [{text!r}]"
    key = draw.choice(list(content))
    moved = content.pop(key)
    other = draw.choice([None, [], [moved], {"inner": moved}, "text", 3, True, {}, {1: moved}, [[moved]]])
    content[draw.choice([key, "data", "model", "training", "settings"])] = other
    return json.dumps(content)


def _bomb(draw: random.Random, text: str) -> str:
    """A few lines that expand to billions of values."""
    bomb = draw.choice([BOMB, MERGED])
    inside = "model:\n  settings:\n" + "".join(f"    {line}\n" for line in bomb.splitlines())
    deep = f"model: {{settings: {DEEP}}}"
    return draw.choice(
        [bomb, text + "\n" + bomb, inside, inside, f"{bomb}data: {{text: *i}}\n", deep, f'data: {{text: "{DEEP}"}}']
    )


def _quoted(draw: random.Random, text: str) -> str:
    """A value that YAML reads as text."""
    return f"{text}\nmodel: {{system: {json.dumps(draw.choice(TYPED))}}}" if draw.random() < 0.5 else text


MUTATIONS = [_value] * 6 + [_key] * 3 + [_typo] * 2 + [_lines] * 2 + [_shape] * 2 + [_quoted, _bomb]
