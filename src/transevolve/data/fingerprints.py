"""The files named in the data settings, and checksums of their contents."""

from dataclasses import replace
from pathlib import Path

from .contents import Contents, contents_of
from .corpus_files import corpus_files
from .files import SPLIT_NAMES
from .options import SPLITS, DataOptions, Split
from .shards import is_shard, parts_of, split_name
from .unlabelled import text_files

SIDES = ("source", "target")
PAIRED = tuple(f"{split}_{side}" for split in ("validation", "test") for side in SIDES)
CORPUS_TASKS = ("masked", "causal")
NAMED = ("path", "validation", "test", "vocab", "unlabelled", *SIDES, *PAIRED)


def located(options: DataOptions, folder: Path) -> DataOptions:
    """The options with paths resolved relative to a folder, if the files exist there."""
    names = {name: folder / value for name in NAMED if isinstance(value := getattr(options, name), str)}
    return replace(options, **{name: str(path) for name, path in names.items() if path.exists()})


def data_files(options: DataOptions) -> dict[str, Path]:
    """All data files by the setting that names them; a file in a folder as `path/train`."""
    found: dict[str, Path] = {}
    for name in NAMED:
        value = getattr(options, name)
        if not isinstance(value, str):
            continue
        path = Path(value)
        if name == "unlabelled":
            files = text_files(path)
            found |= {f"{name}/{file.relative_to(path) if path.is_dir() else file.name}": file for file in files}
        elif path.is_dir() and options.task in CORPUS_TASKS:
            found |= {f"{name}/{key}": file for key, file in _in_corpus(name, path).items()}
        elif path.is_dir() and name == "path":
            found |= {f"{name}/{key}": file for key, file in _in_folder(path, options).items()}
        elif path.is_dir():
            found |= {f"{name}/{file.name}": file for file in parts_of(path)}
        elif path.is_file():
            found[name] = path
    return found


def contents(options: DataOptions) -> dict[str, Contents]:
    """The checksum and number of lines of each data file."""
    return {name: contents_of(path) for name, path in data_files(options).items()}


def fingerprints(options: DataOptions) -> dict[str, str]:
    """The sha256 of the contents of each file."""
    return {name: found.sha256 for name, found in contents(options).items()}


def changed_files(before: dict[str, str], options: DataOptions, split: Split | None = None) -> list[str]:
    """The settings whose files have changed; if a split is given, only the files it is made from."""
    files = {name: path for name, path in data_files(options).items() if split is None or _makes(name, split, before)}
    made = [name for name in before if split is None or (files and _makes(name, split, before))]
    missing = [name for name in made if name not in files]
    return [*missing, *(name for name, path in files.items() if before.get(name) != contents_of(path).sha256)]


def _makes(name: str, split: Split, before: dict[str, str]) -> bool:
    """Whether a file belongs to a split; a split without files is cut from train."""
    own = any(_split_of(key) == split for key in before)
    return _split_of(name) == (split if own else "train")


def _split_of(name: str) -> Split | None:
    if name == "vocab" or name.startswith("unlabelled"):
        return None
    key = name.removeprefix("path/")
    named: list[Split] = [split for split in SPLITS if key.startswith(split)]
    return named[0] if named else "train"


def _in_folder(folder: Path, options: DataOptions) -> dict[str, Path]:
    """Files by split, by split and language, or by split and file name if a split has several files."""
    from .registry import task_of

    spelled = {other: split for split, names in SPLIT_NAMES.items() for other in names}
    pairs = task_of(options) == "translation"
    found: dict[str, Path] = {}
    folders: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        stem, *endings = path.name.lower().split(".")
        split = "test" if stem.startswith("test") else spelled.get(split_name(path))
        language = next((end for end in endings if end not in ("gz", "gzip")), "")
        if split is None or not (path.is_file() or path.is_dir()):
            continue
        if path.is_dir():
            folders[split] = path
        elif not pairs:
            found[f"{split}/{path.name}" if is_shard(path) else split] = path
        elif language in (options.source_lang, options.target_lang):
            found[f"{split}.{stem}.{language}" if split == "test" else f"{split}.{language}"] = path
    for split, path in folders.items():
        if not pairs and not any(key.partition("/")[0] == split for key in found):
            found |= {f"{split}/{file.name}": file for file in parts_of(path)}
    return found


def _in_corpus(name: str, folder: Path) -> dict[str, Path]:
    """Files in a folder of texts, by split and relative path."""
    files = corpus_files(DataOptions(path=str(folder)))
    pairs = [(split if name == "path" else name, file) for split, listed in files.items() for file in listed]
    return {f"{split}/{file.relative_to(folder)}": file for split, file in pairs}
