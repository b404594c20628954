"""Run folders with one damaged file, by accident or by an attacker who also corrects the checksums."""

import json
import random
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from hardening.streams import damaged
from transevolve.runs.storage import MANIFEST, checkpoints, write_manifest

JUNK: list[Any] = [
    None,
    True,
    -1,
    0,
    1.5,
    10**12,
    "",
    "x",
    "é\n",
    [],
    [1],
    {},
    {"a": 1},
    {"0": "x"},
    [[]],
    float("inf"),
]
VERSIONS = {"transformers_version": "99.0", "model_type": "bert", "architectures": ["Other"], "dtype": "int8"}
TOP_MODEL = ("model.safetensors", "results.json", MANIFEST)


@dataclass(frozen=True)
class Damage:
    """The damage and its file; `summed` if the manifest matches the damaged file."""

    file: Path
    how: str
    summed: bool

    def __str__(self) -> str:
        return f"{self.file} {self.how}{', sums corrected' if self.summed else ''}"


def damage(draw: random.Random, run: Path, in_checkpoint: bool) -> Damage:
    """Damages one file of the run or of its newest checkpoint."""
    folder = checkpoints(run / "checkpoints")[-1][1] if in_checkpoint else run
    files = sorted(
        path
        for path in folder.iterdir()
        if path.is_file() and not path.name.startswith(".") and path.name != "curves.png"
    )
    file = draw.choice(files)
    structured = file.suffix in (".json", ".yaml")
    how = draw.choice(["flipped", "cut", "emptied", "missing", "a folder", "random", *["retyped"] * (5 * structured)])
    HOW[how](draw, file)
    summed = draw.random() < 0.6 and (folder / MANIFEST).is_file() and file.name != MANIFEST
    if summed:
        kept = json.loads((folder / MANIFEST).read_text())["sha256"]
        write_manifest(folder, [name for name in kept if (folder / name).is_file()])
    return Damage(file, how, summed)


def unfinish(run: Path) -> None:
    """As if the training had been stopped after its last checkpoint but one."""
    for name in TOP_MODEL:
        (run / name).unlink(missing_ok=True)
    shutil.rmtree(checkpoints(run / "checkpoints")[-1][1])


def _flip(draw: random.Random, file: Path) -> None:
    content = bytearray(file.read_bytes())
    for _ in range(draw.choice([1, 1, 8])):
        if content:
            content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    file.write_bytes(content)


def _cut(draw: random.Random, file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: draw.randrange(len(content) + 1)])


def _folder(draw: random.Random, file: Path) -> None:
    file.unlink()
    file.mkdir()


def _retype(draw: random.Random, file: Path) -> None:
    """Replaces or removes one value of a structured file, or changes a version."""
    try:
        content = (
            YAML(typ="safe", pure=True).load(file.read_text())
            if file.suffix == ".yaml"
            else json.loads(file.read_text())
        )
        places = list(_places(content))
        container, key = draw.choice(places)
    except (ValueError, IndexError, YAMLError):
        file.write_bytes(damaged(draw, file.read_bytes()))
        return
    kind = draw.random()
    if kind < 0.15:
        del container[key]
    elif kind < 0.25 and isinstance(content, dict):
        content |= dict([draw.choice(list(VERSIONS.items()))])
    elif kind < 0.3:
        content = draw.choice(JUNK)
    else:
        container[key] = draw.choice(JUNK)
    file.write_text(json.dumps(content))


def _places(content: Any) -> Any:
    if isinstance(content, dict | list):
        for key, value in content.items() if isinstance(content, dict) else enumerate(content):
            yield content, key
            yield from _places(value)


HOW = {
    "flipped": _flip,
    "cut": _cut,
    "emptied": lambda draw, file: file.write_bytes(b""),
    "missing": lambda draw, file: file.unlink(),
    "a folder": _folder,
    "random": lambda draw, file: file.write_bytes(draw.randbytes(draw.randint(1, 300))),
    "retyped": _retype,
}
