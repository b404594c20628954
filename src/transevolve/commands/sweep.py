"""`transevolve sweep`: runs the trainings of a sweep file and tabulates them; can be resumed."""

from dataclasses import dataclass, field
from pathlib import Path

from ..config.command_line import POSITIONAL
from ..core.errors import UserError


@dataclass(frozen=True)
class Options:
    """A sweep file names a recipe, rows and a grid of settings, and seeds; docs/training.md has an example.

    Args:
        file: The sweep file.
        output: Folder of the runs and the table; by default sweeps/ plus the file name.
        set: Settings for all cases, such as training.epochs=1.
        records: Folder for the table and a small file with the results of each finished case. Cases that are recorded
            there, on this machine or another, are not trained again.
        plan: Time a few steps of each missing case and estimate its cost; nothing is trained. With --records, the
            estimates are written to plan.json in that folder.
        train: Train what is missing; with --no-train, only tabulate what is recorded.
    """

    file: str = field(metadata=POSITIONAL)
    output: str | None = None
    set: list[str] = field(default_factory=list)
    records: str | None = None
    plan: bool = False
    train: bool = True


def run(options: Options) -> int:
    from ..config.files import find_recipe
    from ..core.tables import show
    from ..training.sweep import (
        most_frequent,
        plan_sweep,
        plan_table,
        plot,
        read_sweep,
        run_sweep,
        table,
        typed,
        write_plans,
    )

    path = find_recipe(options.file)
    sweep = read_sweep(path)
    folder = Path(options.output or sweep.output or f"sweeps/{path.stem}")
    recorded = None if options.records is None else Path(options.records)
    if recorded is None and not options.train:
        raise UserError("--no-train tabulates records: name their folder with --records")
    sweep.settings |= typed(dict(map(_pair, options.set)))
    if options.plan:
        plans = plan_sweep(sweep, folder, recorded)
        show(f"{path.stem}: missing cases", *plan_table(plans))
        if recorded:
            write_plans(sweep, recorded, plans)
        return 0
    outcomes = run_sweep(sweep, folder, recorded, options.train)
    show(f"{path.stem}: {sweep.recipe}", *table(outcomes))
    frequent = most_frequent(outcomes)
    if frequent is not None:
        print(f"accuracy of always predicting the most frequent class: {frequent:.4f}")
    tables = recorded or folder
    plot(sweep, outcomes, tables / "sweep.png")
    print(f"wrote {tables}/sweep.md, sweep.json, sweep.png")
    if not any(outcome.results for outcome in outcomes):
        failed = (
            f"could be trained; the first one: {outcomes[0].error}" if options.train else f"is recorded in {tables}"
        )
        raise UserError(f"no case {failed}")
    return 0


def _pair(setting: str) -> tuple[str, str]:
    key, equals, value = setting.partition("=")
    if not equals:
        raise UserError(f"--set takes settings such as training.epochs=1, not {setting!r}")
    return key, value
