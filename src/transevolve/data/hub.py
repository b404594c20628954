"""Datasets on the Hugging Face hub; needs network access."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

import datasets

from ..core.errors import UserError, first_line
from ..core.private import dataset_fingerprint
from .options import SPLITS, DataOptions, Split
from .sources import Source
from .tables import Record, Table


def hub_source(options: DataOptions) -> Source:
    for key in ("validation", "test"):
        if isinstance(getattr(options, key), str):
            raise UserError(
                f"data.{key} names a file, which cannot be combined with data.hub; give all files with data.path"
            )
    tables = hub_tables(options)
    names: dict[Split, str] = {split: table.file for split, table in tables.items()}
    readers: dict[Split, Callable[[], Table]] = {split: partial(tables.__getitem__, split) for split in tables}
    return Source(names, readers, options, hub=hub_fingerprints(tables))


def hub_tables(options: DataOptions) -> dict[Split, Table]:
    """One table per split of the dataset."""
    name = str(options.hub)
    try:
        found = datasets.load_dataset(name, options.hub_config, cache_dir=options.cache)
    except (OSError, ValueError, RuntimeError) as error:
        raise UserError(
            f"data.hub {name!r} cannot be loaded ({first_line(error)}); check the name and the network,"
            " name its configuration with data.hub_config if it has several, or give the files with data.path"
        ) from None
    if not isinstance(found, datasets.DatasetDict) or "train" not in found:
        raise UserError(f"data.hub {name!r} has no train split; give the files with data.path")
    called = f"{name}, {options.hub_config}" if options.hub_config else name
    return {split: _table(f"{called} ({split})", found[split]) for split in SPLITS if split in found}


def hub_fingerprints(tables: Mapping[Split, Table]) -> dict[str, str]:
    """A fingerprint of each split."""
    return {f"hub/{split}": table.fingerprint for split, table in tables.items() if table.fingerprint is not None}


def _table(name: str, data: datasets.Dataset) -> Table:
    return Table(name, "row", list(data.column_names), partial(_records, data), dataset_fingerprint(data))


def _records(data: datasets.Dataset, names: Sequence[str]) -> Iterator[Record]:
    batches = data.select_columns(list(names)).iter(batch_size=1000)
    columns = ([_named(data.features[name], dict(batch)[name]) for name in names] for batch in batches)
    yield from enumerate(chain.from_iterable(zip(*values, strict=True) for values in columns), start=1)


def _named(feature: Any, values: list[Any]) -> list[Any]:
    """Replace class numbers by class names; -1 is a missing label."""
    if not isinstance(feature, datasets.ClassLabel):
        return values
    return [None if value is None or value < 0 else feature.names[value] for value in values]
