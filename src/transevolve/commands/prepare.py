"""`transevolve prepare`: reads, splits and tokenizes the data of a training, and stores them in the cache."""

from dataclasses import dataclass

from . import train


@dataclass(frozen=True)
class Options(train.Options):
    """The options of `train`. Training with the same options then starts without reading the files again."""


def run(options: Options) -> int:
    recipe = options.load()
    from ..data import load_data
    from ..data.cache_items import folder_size, format_size
    from ..kinds.start import settle

    kind, tokenizer = settle(recipe)
    data = load_data(recipe.data, tokenizer=tokenizer)
    print("\n".join([*data.report.lines(), *kind.notes(recipe, data)]))
    if data.folder is not None:
        print(f"prepared data: {data.folder}, {format_size(folder_size(data.folder))}")
    return 0
