"""Compares runs on one page: results, curves, differences, confusion matrices, and benchmarks."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev

from ..core.pages import render
from .axes import LARGEST, drawing, short
from .benchmarks import benchmark_section
from .comparison import Case, MeanScore, best, cases
from .content import Chart, Charts, Confusion, Heading, Note, Part, Point, Section, Series, Table
from .runs import RunFacts, differences

COLUMNS = ["run", "system", "parameters", "validation", "test", "s/epoch", "tokens/s", "seed", "commit", "best step"]
SEED_COLUMNS = ["case", "system", "task", "seeds", "validation", "test"]
SPLITS = ("validation", "test")
MOST_CLASSES = 25
MOST_MISTAKES = 15


def report_page(runs: list[RunFacts], benchmarks: list[Path]) -> str:
    title = f"{len(runs)} runs side by side" if len(runs) > 1 else (runs[0].name if runs else "Benchmarks")
    sections = [*_runs(runs), *(benchmark_section(path) for path in benchmarks)]
    return render("report.html", title=title, sections=sections, drawing=drawing)


def _runs(runs: list[RunFacts]) -> list[Section]:
    if not runs:
        return []
    found = cases(runs)
    sections = [_results(runs, found)]
    groups = dict.fromkeys((case.task, case.metric) for case in found)
    for task, metric in groups:
        group = [case for case in found if (case.task, case.metric) == (task, metric)]
        if any(run.metrics for case in group for run in case.runs):
            sections.append(_curves(group, f"{metric} on {task}" if len(groups) > 1 else metric, metric))
    columns, differing = differences(runs)
    if len(runs) > 1 and differing:
        table = Table(columns, differing)
        sections.append(Section("What differs", "Settings that are not the same in all runs.", [table]))
    return sections + [_confusion(run) for run in runs if any(e.confusion for e in run.evaluations)]


def _results(runs: list[RunFacts], found: list[Case]) -> Section:
    chosen = dict.fromkeys(run.result.selected_on for run in runs if run.result)
    sentence = (
        "± is the standard deviation over seeds, or for a single run the binomial error of its accuracy. Bold is the"
        " best of its task where its lead exceeds the errors of both."
    )
    if chosen:
        sentence += f" Models were selected on: {'; '.join(chosen)}. Test splits were scored once, afterwards."
    repeated = any(len(case.runs) > 1 for case in found)
    parts: list[Part] = [seed_table(found)] if repeated else []
    parts += [Heading("Every run")] if repeated else []
    parts.append(run_table(runs, mark=not repeated))
    damaged = sum(run.damaged for run in runs)
    if damaged:
        parts.append(Note(f"{damaged:,} damaged lines of metrics.jsonl were skipped."))
    return Section("Results", sentence, parts)


def seed_table(found: list[Case]) -> Table:
    rows = [
        [
            case.name,
            case.runs[0].result.system if case.runs[0].result else "",
            case.task,
            ", ".join(str(run.seed) for run in case.runs),
            *(_scored(case.score(split), case.metric) for split in SPLITS),
        ]
        for case in found
    ]
    return Table(SEED_COLUMNS, rows, {(n, 4 + c) for c, split in enumerate(SPLITS) for n in best(found, split)})


def run_table(runs: list[RunFacts], mark: bool) -> Table:
    single = [Case([run]) for run in runs]
    leaders = {(n, 3 + c) for c, split in enumerate(SPLITS) for n in best(single, split)} if mark else set()
    return Table(COLUMNS, [_row(case) for case in single], leaders)


def _row(case: Case) -> list[str]:
    (run,), result = case.runs, case.runs[0].result
    if result is None:
        last = run.metrics[-1].get("step", 0) if run.metrics else 0
        system = run.settings.get("model.variant") or run.settings.get("model.system") or ""
        return [run.name, str(system), "", f"not finished, at step {last:,.0f}", *("" for _ in COLUMNS[4:])]
    return [
        run.name,
        result.system,
        f"{result.parameters:,}",
        *(_scored(case.score(split), run.metric) for split in SPLITS),
        f"{result.seconds_per_epoch:,.1f}",
        f"{result.tokens_per_second:,.0f}",
        str(result.seed),
        result.machine.get("commit", ""),
        f"{result.best_step:,}",
    ]


def _scored(score: MeanScore | None, metric: str) -> str:
    return "—" if score is None else f"{score} {metric}"


def _curves(group: list[Case], title: str, metric: str) -> Section:
    """Training loss and the validation metric, against steps or epochs and against seconds."""
    panels = [
        ("training loss", "loss", "step"),
        ("training loss", "loss", "seconds"),
        (f"validation {metric}", f"eval_{metric}", "epoch"),
        (f"validation {metric}", f"eval_{metric}", "seconds"),
    ]
    charts = [
        Chart(
            name,
            against,
            [Series(case.name, number, points(case.runs, key, against)) for number, case in enumerate(group)],
            whole=against in ("step", "epoch"),
        )
        for name, key, against in panels
    ]
    sentence = "Point at a line to read its values. Seconds compare only between runs on one machine."
    if any(len(case.runs) > 1 for case in group):
        sentence += " Of several seeds: the mean, with bars of one standard deviation."
    return Section(f"Curves: {title}", sentence, [Charts(charts)])


def points(runs: Sequence[RunFacts], key: str, against: str) -> list[Point]:
    """The values of one run, or the mean and standard deviation over seeds at steps that all of them measured."""
    by_step: dict[float, list[tuple[float, float]]] = {}
    for run in runs:
        for row in run.metrics:
            if all(abs(row.get(name, LARGEST)) < LARGEST for name in (key, against)):
                by_step.setdefault(row.get("step", row[against]), []).append((row[against], row[key]))
    found = []
    for _, values in sorted(by_step.items()):
        if len(values) < len(runs):
            continue
        x, y = fmean(v[0] for v in values), fmean(v[1] for v in values)
        error = stdev(v[1] for v in values) if len(values) > 1 else None
        text = f"{short(y)}{'' if error is None else f' ± {short(error)}'} at {against} {short(x)}"
        found.append(Point(x, y, text) if error is None else Point(x, y, text, y - error, y + error))
    return found


def _confusion(run: RunFacts) -> Section:
    parts: list[Part] = []
    for evaluation in run.evaluations:
        if not evaluation.confusion:
            continue
        labels = [score.label for score in evaluation.classes]
        parts.append(Heading(f"{evaluation.rows}: accuracy {evaluation.accuracy:.4f}"))
        if len(labels) <= MOST_CLASSES:
            parts.append(Confusion(labels, evaluation.confusion))
        else:
            parts.append(Note(f"{len(labels)} classes are too many to draw; these were confused most often:"))
            parts.append(Table(["true", "predicted", "rows"], _mistakes(labels, evaluation.confusion)))
    sentence = "Rows are true classes, columns predicted ones; the colour is the share of the row."
    return Section(f"Confusion: {run.name}", sentence, parts)


def _mistakes(labels: list[str], counts: list[list[int]]) -> list[list[str]]:
    wrong = [(count, i, j) for i, row in enumerate(counts) for j, count in enumerate(row) if i != j and count]
    return [[labels[i], labels[j], f"{count:,}"] for count, i, j in sorted(wrong, reverse=True)[:MOST_MISTAKES]]
