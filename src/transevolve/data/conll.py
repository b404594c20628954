"""Tagged words: CoNLL files, or the lists `tokens` and `tags` of jsonl and parquet.

The words of a sentence are stored as one text, separated by spaces, and so are its tags.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..core.errors import UserError, quoted
from .files import SPLIT_NAMES
from .lines import numbered_lines, open_bytes, stripped
from .options import DataOptions, Split
from .rows import Rows
from .shards import existing
from .tables import Table, open_table, require_unicode, table_format

TOKENS = "tokens"
CONLL = (".conll", ".bio", ".iob", ".iob2")
WORD_NAMES, TAG_NAMES = ("tokens", "words"), ("tags", "ner_tags", "ner", "pos_tags", "labels")
DOCUMENT = "-DOCSTART-"
Sentence = tuple[int, list[str], list[str]]


@dataclass
class TaggedSource:
    """The files of tagged words by split; the first one read determines the columns."""

    names: Mapping[Split, str]
    options: DataOptions
    columns: dict[str, str | list[str]] = field(default_factory=dict)
    pairs: bool = False

    def read(self, split: Split) -> Rows:
        path = self.names[split]
        if table_format(path) is None:
            rows = _rows(path, "line", conll_sentences(path))
        else:
            table = open_table(path)
            words, tags = _columns(table, self.options)
            rows = _rows(table.file, table.unit, table_sentences(table, words, tags))
            self.columns = {"text": words, "label": tags}
        if not rows.texts:
            raise UserError(f"{path}: the file contains no sentences; put the data in it")
        return rows


def tagged_source(options: DataOptions) -> TaggedSource:
    found: dict[Split, str] = {}
    if options.path is not None:
        path = existing(options.path, "path")
        found = _in_folder(path) if path.is_dir() else {"train": str(path)}
    if isinstance(options.validation, str):
        found["validation"] = options.validation
    if options.test is not None:
        found["test"] = options.test
    return TaggedSource(found, options)


def conll_sentences(path: str | Path) -> Iterator[Sentence]:
    """Sentences separated by blank lines, numbered by their first line; fields are the word, ..., the tag."""
    words: list[str] = []
    tags: list[str] = []
    start = 0
    with open_bytes(path) as stream:
        for number, line in numbered_lines(stream, str(path)):
            line = stripped(line)
            if line.startswith("# ") and " = " in line:
                continue
            if not line.strip() or line.startswith(DOCUMENT):
                if words:
                    yield start, words, tags
                words, tags = [], []
                continue
            fields = line.split("\t") if "\t" in line else line.split()
            fields = [one.strip() for one in fields]
            if len(fields) < 2 or not fields[0] or not fields[-1]:
                raise UserError(
                    f"{path}, line {number}: {line.strip()!r:.60} is not a word and its tag; write both, separated by a"
                    " tab or by spaces, and a blank line between sentences"
                )
            start = start if words else number
            words.append(fields[0])
            tags.append(fields[-1])
    if words:
        yield start, words, tags


def table_sentences(table: Table, words: str, tags: str) -> Iterator[Sentence]:
    for number, (first, second) in table.select((words, tags)):
        for name, value in ((words, first), (tags, second)):
            if not isinstance(value, list | tuple):
                raise UserError(f"{table.where(number)}: {name!r} contains a {type(value).__name__}, not a list")
        if len(first) != len(second):
            raise UserError(
                f"{table.where(number)}: {len(first)} {words!r} and {len(second)} {tags!r}; give every word one tag"
            )
        if not first:
            raise UserError(f"{table.where(number)}: {words!r} is empty; remove the row")
        for name, values in ((words, first), (tags, second)):
            empty = [
                position for position, value in enumerate(values, start=1) if not str(value).strip() or value is None
            ]
            if empty:
                raise UserError(f"{table.where(number)}: item {empty[0]} of {name!r} is empty; remove it and its pair")
        yield number, [str(word) for word in first], [str(tag) for tag in second]


def _rows(file: str, unit: str, sentences: Iterable[Sentence]) -> Rows:
    rows = Rows(file, unit)
    for number, words, tags in sentences:
        rows.texts.append(join_words(words))
        rows.labels.append(" ".join("_".join(tag.split()) for tag in tags))
        rows.numbers.append(number)
        require_unicode(rows.texts[-1], rows.where(len(rows.texts) - 1))
        require_unicode(rows.labels[-1], rows.where(len(rows.texts) - 1))
    return rows


def join_words(words: Sequence[str]) -> str:
    """Join words with spaces; spaces inside a word become no-break spaces."""
    return " ".join("\u00a0".join(word.split()) or "\u00a0" for word in words)


def _columns(table: Table, options: DataOptions) -> tuple[str, str]:
    chosen = []
    for role, named, known in (("text", options.text, WORD_NAMES), ("label", options.label, TAG_NAMES)):
        name = named if isinstance(named, str) else next((name for name in known if name in table.columns), None)
        if name is None or name not in table.columns:
            what = "words" if role == "text" else "tags"
            raise UserError(
                f"{table.file}: which column contains the lists of {what}? Name it with data.{role}:"
                f" {quoted(table.columns)}"
            )
        chosen.append(name)
    return chosen[0], chosen[1]


def _in_folder(folder: Path) -> dict[Split, str]:
    found: dict[Split, str] = {}
    files = [file for file in sorted(folder.iterdir()) if file.is_file()]
    for split, names in SPLIT_NAMES.items():
        fitting = [file for file in files if file.name.split(".")[0].lower() in names]
        if len(fitting) > 1:
            raise UserError(f"{folder}: {quoted(file.name for file in fitting)} could each be {split}; keep one")
        if fitting:
            found[split] = str(fitting[0])
    if "train" not in found:
        raise UserError(f"{folder}: there is no training file; name it train.conll or train.jsonl")
    return found
