"""`transevolve cache`: lists the contents of the cache folder, or clears it."""

from dataclasses import dataclass, field

from ..config.command_line import POSITIONAL
from ..core.errors import UserError, nearest


@dataclass(frozen=True)
class Options:
    """Prepared and generated data. Running trainings are not affected; later ones prepare the data again.

    Args:
        names: The names of items to list or clear; by default all items.
        clear: Remove instead of listing.
        folder: The cache folder; by default TRANSEVOLVE_CACHE, or transevolve in the user's cache folder.
    """

    names: list[str] = field(default_factory=list, metadata=POSITIONAL)
    clear: bool = False
    folder: str | None = None


def run(options: Options) -> int:
    from ..core.tables import show
    from ..data.cache_folder import cache_folder
    from ..data.cache_items import cache_items, clear, format_size

    root = cache_folder(options.folder)
    found = cache_items(root)
    known = [item.name for item in found]
    for name in options.names:
        if name not in known:
            raise UserError(
                f"there is no {name!r} in {root}{nearest(name, known)}; `transevolve cache` lists all items"
            )
    chosen = [item for item in found if not options.names or item.name in options.names]
    if options.clear:
        freed = clear(root, chosen)
        print(f"{format_size(freed)} removed from {root}")
        return 0
    cells = [[item.name, item.what, format_size(item.size), f"{item.written:%Y-%m-%d %H:%M}"] for item in chosen]
    total = format_size(sum(item.size for item in chosen))
    show(f"{root}: {total}", ["name", "content", "size", "written"], cells)
    return 0
