"""`transevolve report`: compares runs on one page."""

from dataclasses import dataclass, field
from pathlib import Path

from ..config.command_line import POSITIONAL
from ..core.errors import UserError


@dataclass(frozen=True)
class Options:
    """Curves, a table of results, differences of the recipes, and the confusion matrices written by `evaluate`.

    Args:
        paths: Folders of runs, or folders of such folders; and .json files written by `transevolve bench`.
        output: The page.
    """

    paths: list[str] = field(metadata=POSITIONAL)
    output: str = "report.html"


def run(options: Options) -> int:
    from ..core.files import write_atomically
    from ..reporting.report import report_page
    from ..reporting.runs import find_runs, names, read_run

    output, paths = Path(options.output), [Path(path) for path in options.paths]
    if output.is_dir() or output.suffix != ".html":
        raise UserError(f"--output {output} must be a file that ends in .html")
    benchmarks = [path for path in paths if path.suffix == ".json"]
    folders = find_runs([path for path in paths if path.suffix != ".json"])
    runs = [read_run(folder, name) for folder, name in zip(folders, names(folders), strict=True)]
    write_atomically(output, report_page(runs, benchmarks))
    parts = [f"{len(runs)} run{'s'[: len(runs) != 1]}", *(path.name for path in benchmarks)]
    print(f"wrote {output}: {', '.join(parts)}")
    return 0
