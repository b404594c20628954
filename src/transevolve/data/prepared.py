"""A cache of prepared data on disk, keyed by the contents of the source files and the settings.

A folder is written under a temporary name and then renamed, so it is complete or absent. One process prepares the data
while others wait for its lock, which the operating system releases if the process dies.
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerFast

from ..core.files import remove, report_full_disk, staging_folder
from ..core.messages import say
from .cache_folder import KEY_LENGTH, cache_folder, locked
from .contents import contents_of
from .data import TextData
from .entry import Entry, Unusable, check_files, open_entry, read_entry, tokenizer_digest, write_entry
from .fingerprints import NAMED, data_files, fingerprints
from .options import SPLITS, TOKENIZERS, DataOptions, Split
from .saved_tokenizers import tokenizer_files
from .stored import workspace
from .tables import table_format

FOLDER = "prepared"


def prepared(
    options: DataOptions,
    load: Callable[[], TextData],
    *,
    loader: str,
    names: Mapping[Split, str],
    hub: Mapping[str, str],
    tokenizer: PreTrainedTokenizerFast | None,
    labels: Sequence[str] | None,
    splits: Sequence[Split],
) -> TextData:
    """Load data from the cache, or call `load` to prepare them.

    In training, the prepared data are stored in the cache. With the tokenizer and labels of a saved model, its training
    data are used if they are in the cache; otherwise the splits are prepared in a temporary folder.

    Args:
        load: Reads, splits and tokenizes the data.
        loader: A string of everything besides the options that affects the result.
        names: The name of each split in the report.
        hub: Fingerprints of data that are not in files.
    """
    content = content_of(options, loader, hub)
    root = cache_folder(options.cache) / FOLDER
    contents = [content] if tokenizer is None else [content, {**content, "tokenizer": tokenizer_digest(tokenizer)}]
    if labels is None and set(splits) == set(SPLITS):
        data = with_current_names(_load_or_prepare(root / key_of(contents[-1]), load, contents[-1], names), names)
        return data if tokenizer is None else replace(data, tokenizer=tokenizer)
    if tokenizer is not None:
        for known in contents:
            found = _open_training(root / key_of(known), tokenizer, labels, splits)
            if found is not None:
                return with_current_names(found, names)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as aside:  # noqa: SIM117
        with report_full_disk(Path(aside)), workspace(Path(aside)):
            return load()


def content_of(options: DataOptions, loader: str, hub: Mapping[str, str]) -> dict[str, Any]:
    """Everything that prepared data depend on. Files are identified by contents and format, not by name."""
    files = {**fingerprints(options), **hub}
    values = {field.name: getattr(options, field.name) for field in fields(options) if field.name != "cache"}
    settings = {name: value for name, value in values.items() if name not in NAMED or not isinstance(value, str)}
    if options.tokenizer is not None and options.tokenizer not in TOKENIZERS:
        settings["tokenizer"] = None
        files |= {f"tokenizer/{file.name}": contents_of(file).sha256 for file in tokenizer_files(options.tokenizer)}
    formats = {name: table_format(path) for name, path in data_files(options).items()}
    return {"loader": loader, "settings": settings, "files": files, "formats": formats}


def key_of(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:KEY_LENGTH]


def with_current_names(prepared: tuple[TextData, Entry], names: Mapping[Split, str]) -> TextData:
    """Replace the file names in the report by the current ones."""
    data, entry = prepared
    current: dict[str, str] = {**names}
    for split, before in entry.names.items():
        now = current.get(split, before)
        for facts in data.report.splits.values():
            if facts.origin.startswith(before):
                facts.origin = now + facts.origin.removeprefix(before)
        if data.report.selection == f"validation, {before}":
            data.report.selection = f"validation, {now}"
    return data


def _load_or_prepare(
    folder: Path, load: Callable[[], TextData], content: Mapping[str, Any], names: Mapping[Split, str]
) -> tuple[TextData, Entry]:
    available = folder.is_dir()
    found = _open_intact(folder)
    if found is not None:
        return found
    with locked(folder) as waited:
        found = None if available and not waited else _open_intact(folder)
        if found is not None:
            return found
        with staging_folder(folder) as part:
            with workspace(part):
                data = load()
            entry = write_entry(part, data, content, names)
            del data
            remove(folder)
            os.replace(part, folder)
    return _opened(folder, entry), entry


def _open_intact(folder: Path) -> tuple[TextData, Entry] | None:
    """Open prepared data if they exist and are intact."""
    if not folder.is_dir():
        return None
    try:
        entry = read_entry(folder)
        check_files(folder, entry)
        return _opened(folder, entry), entry
    except Unusable as error:
        say(f"{error}: the data are prepared again")
        return None


def _opened(folder: Path, entry: Entry) -> TextData:
    return replace(open_entry(folder, entry), folder=folder, tokenizer_sha256=entry.tokenizer)


def _open_training(
    folder: Path, tokenizer: PreTrainedTokenizerFast, labels: Sequence[str] | None, splits: Sequence[Split]
) -> tuple[TextData, Entry] | None:
    """Open the splits prepared for training, if tokenizer and labels are the same."""
    found = _open_intact(folder)
    if found is None:
        return None
    data, entry = found
    same = entry.tokenizer == tokenizer_digest(tokenizer) and (labels is None or list(labels) == data.labels)
    if not same:
        return None
    for split in SPLITS:
        if split not in splits:
            setattr(data, split, None)
            data.report.splits.pop(split, None)
    data.report.tokenizer = f"as saved with the model, {len(tokenizer):,} tokens"
    return replace(data, tokenizer=tokenizer), entry
