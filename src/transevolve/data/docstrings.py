"""`docstrings`: predict which library a sentence documents. Needs no download.

The sentences are from the docstrings of Python and of libraries that this package depends on. Train, validation and
test are split by module. Sentences that name their library, or occur in two libraries, are skipped.
"""

import hashlib
import re
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from platform import python_version
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ..core.files import atomic_file
from .cache_folder import cache_folder, write_errors
from .options import DataOptions, Split
from .sources import Source
from .tables import Record, Table, open_table
from .text import USES as TEXT_USES
from .text import TextTask

GENERATOR = 1
USES = TEXT_USES - {"path", "hub", "hub_config", "text", "label", "validation", "test"}
# Words that reveal the library.
LIBRARIES = {
    "matplotlib": ("matplotlib", "pyplot"),
    "numpy": ("numpy", "np."),
    "pandas": ("pandas",),
    "python": ("python",),
    "sklearn": ("sklearn", "scikit"),
    "torch": ("torch",),
}
DISTRIBUTIONS = {"sklearn": "scikit-learn"}
SKIPPED = {"tests", "test", "testing", "site-packages", "dist-packages", "idlelib", "lib2to3"}
MOST_SENTENCES, LARGEST_FILE = 2000, 400_000
WORDS = range(6, 41)
STRING = re.compile(r'"""(.*?)"""', re.DOTALL)
BEFORE_DOCSTRING = re.compile(r"\s*[rRuU]?")
SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
PROSE = re.compile(r"[A-Z][\w ,;:'()/-]*[.!?]")


class Docstrings(TextTask):
    """Texts and classes, generated once per set of installed versions."""

    def _source(self, options: DataOptions) -> Source:
        path = cached_sentences(cache_folder(options.cache))
        splits: tuple[Split, ...] = ("train", "validation", "test")
        names: dict[Split, str] = dict.fromkeys(splits, f"docstrings of {versions()}")
        tables: dict[Split, Callable[[], Table]] = {split: partial(_table, path, split) for split in splits}
        return Source(names, tables, replace(options, text="text", label="label"), hub={"docstrings": path.stem})


def versions() -> str:
    """The installed libraries and their versions."""
    found = {}
    for library in LIBRARIES:
        if library == "python":
            found[library] = python_version()
        elif find_spec(library) is not None:
            found[library] = metadata.version(DISTRIBUTIONS.get(library, library))
    return ", ".join(f"{library} {version}" for library, version in found.items())


def cached_sentences(folder: Path) -> Path:
    """A parquet file with the columns text, label and split."""
    digest = hashlib.sha256(f"{GENERATOR} {MOST_SENTENCES} {versions()}".encode()).hexdigest()[:12]
    path = folder / f"docstrings-{digest}.parquet"
    if not path.exists():
        columns = zip(*generate(), strict=True)
        table = pa.table(dict(zip(("text", "label", "split"), map(pa.array, columns), strict=True)))
        with write_errors(folder), atomic_file(path) as file:
            pq.write_table(table, file)
    return path


def generate() -> list[tuple[str, str, str]]:
    """(sentence, library, split) for all installed libraries."""
    found: dict[str, tuple[str, str] | None] = {}
    for library in LIBRARIES:
        for sentence, split in _sentences_of(library):
            known = found.setdefault(sentence, (library, split))
            if known is not None and known[0] != library:
                found[sentence] = None
    return [(sentence, *position) for sentence, position in found.items() if position is not None]


def _sentences_of(library: str) -> Iterator[tuple[str, str]]:
    seen: set[str] = set()
    folder = _folder(library)
    for digest, file in _modules(folder) if folder is not None else ():
        split = {0: "test", 1: "validation"}.get(digest[0] % 10, "train")
        for text in docstrings(file):
            for sentence in sentences(text, LIBRARIES[library]):
                if sentence not in seen:
                    seen.add(sentence)
                    yield sentence, split
                if len(seen) == MOST_SENTENCES:
                    return


def _folder(library: str) -> Path | None:
    """The source folder of a library, found without importing it."""
    if library == "python":
        return Path(sysconfig.get_paths()["stdlib"])
    spec = find_spec(library)
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


def _modules(folder: Path) -> list[tuple[bytes, Path]]:
    """Modules except tests, in an order that mixes subpackages and is the same on every machine."""
    files = [file for file in folder.rglob("*.py") if not SKIPPED & {*file.relative_to(folder).parts}]
    return sorted((hashlib.sha256(file.relative_to(folder).as_posix().encode()).digest(), file) for file in files)


def docstrings(file: Path) -> Iterator[str]:
    """The docstrings of a file, found with a regular expression, which is ten times as fast as a parser."""
    try:
        source = file.read_text(encoding="utf-8") if file.stat().st_size <= LARGEST_FILE else ""
    except (OSError, UnicodeDecodeError):
        return
    for string in STRING.finditer(source):
        line = source.rfind("\n", 0, string.start()) + 1
        if BEFORE_DOCSTRING.fullmatch(source, line, string.start()):
            yield string[1]


def sentences(text: str, names: Sequence[str]) -> Iterator[str]:
    """Plain sentences of the first paragraph that do not contain any of the names."""
    paragraph = " ".join(text.strip().split("\n\n")[0].split())
    for sentence in SENTENCE_END.split(paragraph):
        named = any(name in sentence.lower() for name in names)
        if len(sentence.split()) in WORDS and PROSE.fullmatch(sentence) and not named:
            yield sentence


def _table(path: Path, split: str) -> Table:
    whole = open_table(path)

    def select(names: Sequence[str]) -> Iterator[Record]:
        for number, (*values, found) in whole.select((*names, "split")):
            if found == split:
                yield number, tuple[Any, ...](values)

    return Table("docstrings", whole.unit, ["text", "label"], select)


DOCSTRINGS = Docstrings(vocab_size=8000, max_length=64)
