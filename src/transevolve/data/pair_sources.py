"""Sources of sentence pairs: two files, a folder of files named by language, or the hub."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from ..core.errors import UserError, quoted
from .files import SPLIT_NAMES
from .options import SPLITS, DataOptions, Split
from .pairs import Pairs, read_pairs, require_languages, table_languages, table_pairs

COMPRESSED = (".gz", ".gzip")


@dataclass
class PairSource:
    """The name and reader of each split, and fingerprints of data that is not in files."""

    names: dict[Split, str] = field(default_factory=dict)
    readers: dict[Split, Callable[[], Pairs]] = field(default_factory=dict)
    languages: dict[str, str] = field(default_factory=dict)
    hub: dict[str, str] = field(default_factory=dict)

    def add_files(self, split: Split, source: str | Path, target: str | Path) -> None:
        self.names[split] = f"{source} and {target}"
        self.readers[split] = partial(read_pairs, source, target)


def pair_source(options: DataOptions) -> PairSource:
    _require_one_origin(options)
    named = {split: named_files(options, split) for split in SPLITS}
    if options.path is not None:
        found = _folder_source(options)
    elif options.hub is not None:
        found = _hub_source(options)
    else:
        languages = {"source": options.source_lang, "target": options.target_lang}
        found = PairSource(languages={role: name for role, name in languages.items() if name is not None})
    for split, files in named.items():
        if files is not None:
            found.add_files(split, *files)  # pyright: ignore[reportArgumentType]
    return found


def named_files(options: DataOptions, split: Split) -> tuple[str, str] | None:
    """The two files that the options name for a split."""
    prefix = "" if split == "train" else f"{split}_"
    source, target = (getattr(options, f"{prefix}{role}") for role in ("source", "target"))
    if (source is None) != (target is None):
        present, missing = ("target", "source") if source is None else ("source", "target")
        raise UserError(f"data.{prefix}{present} is set without data.{prefix}{missing}: name both files")
    return None if source is None else (source, target)


def _require_one_origin(options: DataOptions) -> None:
    found = [name for name in ("path", "hub", "source", "target") if getattr(options, name) is not None]
    if found[:1] in (["path"], ["hub"]) and len(found) > 1:
        raise UserError(f"data.{found[0]} and data.{found[1]} are both set: remove one")


def require_train(source: PairSource) -> None:
    if "train" not in source.names:
        raise UserError(
            "translation needs data.source and data.target, two aligned files,"
            " or data.path, a folder, with data.source_lang and data.target_lang"
        )


def _hub_source(options: DataOptions) -> PairSource:
    from .hub import hub_fingerprints, hub_tables

    tables = hub_tables(options)
    available = table_languages(tables["train"])
    languages = require_languages(options.source_lang, options.target_lang, available, f"data.hub {options.hub!r}")
    return PairSource(
        {split: table.file for split, table in tables.items()},
        {split: partial(table_pairs, table, languages) for split, table in tables.items()},
        dict(zip(("source", "target"), languages, strict=True)),
        hub_fingerprints(tables),
    )


def _folder_source(options: DataOptions) -> PairSource:
    folder = Path(str(options.path))
    if not folder.exists():
        raise UserError(f"{folder}: there is no such folder; check data.path")
    if not folder.is_dir():
        raise UserError(f"{folder}: not a folder; give two files with data.source and data.target")
    files = _by_name(folder)
    train = [name for name in files if _split_of(name[0]) == "train"]
    if not train:
        available = quoted(file.name for paths in files.values() for file in paths) or "no file"
        raise UserError(
            f"{folder}: there is no training file; looked for train.LANGUAGE, such as train.en (plain or .gz),"
            f" found {available}"
        )
    available = sorted({language for _, language in train})
    languages = require_languages(options.source_lang, options.target_lang, available, str(folder))
    found = PairSource(languages=dict(zip(("source", "target"), languages, strict=True)))
    for split in SPLITS:
        if named_files(options, split) is None:
            name = _one_name(folder, split, sorted({name for name, language in files if language in languages}))
            if name is not None:
                found.add_files(split, *(_one_file(folder, files, name, language) for language in languages))
    return found


def _by_name(folder: Path) -> dict[tuple[str, str], list[Path]]:
    """Files by name and language: `test_2016.en` and `test_2016.en.gz` are both ("test_2016", "en")."""
    found: dict[tuple[str, str], list[Path]] = {}
    for file in sorted(folder.iterdir()):
        plain = file.with_suffix("") if file.suffix.lower() in COMPRESSED else file
        if file.is_file():
            found.setdefault((plain.stem, plain.suffix.removeprefix(".")), []).append(file)
    return found


def _split_of(name: str) -> Split | None:
    """The split of a file name; names that start with test, such as test_2016, are test."""
    for split, names in SPLIT_NAMES.items():
        if name.lower() in names or (split == "test" and name.lower().startswith("test")):
            return split
    return None


def _one_name(folder: Path, split: Split, names: list[str]) -> str | None:
    fitting = [name for name in names if _split_of(name) == split]
    exact = [name for name in fitting if name.lower() == SPLIT_NAMES[split][0]]
    if len(fitting) > 1 and not (split == "test" and len(exact) == 1):
        end = "keep one" if split == "train" else f"name one with data.{split}_source and data.{split}_target"
        raise UserError(f"{folder}: {quoted(fitting)} could each be {split}; {end}")
    return next(iter(exact or fitting), None)


def _one_file(folder: Path, files: dict[tuple[str, str], list[Path]], name: str, language: str) -> Path:
    paths = files.get((name, language), [])
    if len(paths) > 1:
        raise UserError(f"{folder}: {quoted(path.name for path in paths)} are the same file twice; keep one")
    if not paths:
        raise UserError(f"{folder}: there is no {name}.{language}, the other side of {name}; add it, plain or .gz")
    return paths[0]
