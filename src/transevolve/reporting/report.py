"""Runs side by side on one page: results, curves, what differs, confusion matrices, and benchmarks."""

from pathlib import Path
from typing import Any

from ..core.figures import new_figure, plain
from ..kinds.registry import higher_is_better
from .benchmarks import benchmark_section
from .markup import confusion, document, figure_image, heading, paragraph, section, table
from .runs import RunFacts, differences

COLUMNS = ["run", "system", "parameters", "validation", "test", "s/epoch", "tokens/s", "seed", "commit", "best step"]
MOST_CLASSES = 25
MOST_MISTAKES = 15


def report_page(runs: list[RunFacts], benchmarks: list[Path]) -> str:
    told = f"{len(runs)} runs side by side" if len(runs) > 1 else (runs[0].name if runs else "Benchmarks")
    sections = [*_runs(runs), *(benchmark_section(path) for path in benchmarks)]
    return document(told, sections)


def _runs(runs: list[RunFacts]) -> list[str]:
    if not runs:
        return []
    rows, best = results(runs)
    finished = [run.result for run in runs if run.result]
    chosen = dict.fromkeys(str(result.get("selected_on")) for result in finished)
    sentence = "One row a run; bold is the best of its task and metric."
    if chosen:
        sentence += f" Models were selected on: {'; '.join(chosen)}. Test splits were scored once, afterwards."
    sections = [section("Results", sentence, table(COLUMNS, rows, best))]
    for metric in dict.fromkeys(run.metric for run in runs):
        group = [run for run in runs if run.metric == metric and run.metrics]
        if group:
            sections.append(_curves(group, metric))
    columns, differing = differences(runs)
    if len(runs) > 1 and differing:
        sections.append(
            section("What differs", "Settings that are not the same in all runs.", table(columns, differing))
        )
    sections += [_confusion(run) for run in runs if any("confusion" in e for e in run.evaluations)]
    return sections


def results(runs: list[RunFacts]) -> tuple[list[list[str]], set[tuple[int, int]]]:
    """The cells of the results table, and which of them are the best of their task and metric."""
    rows = [_row(run) for run in runs]
    best = set()
    for column, split in ((3, "validation"), (4, "test")):
        groups: dict[tuple[Any, str], list[tuple[float, int]]] = {}
        for number, run in enumerate(runs):
            value = _score(run, split)
            if value is not None and run.result:
                groups.setdefault((run.result.get("task"), run.metric), []).append((value, number))
        for (_, metric), scored in groups.items():
            top = (max if higher_is_better(metric) else min)(value for value, _ in scored)
            best |= {(number, column) for value, number in scored if value == top and len(scored) > 1}
    return rows, best


def _row(run: RunFacts) -> list[str]:
    result = run.result
    if result is None:
        last = run.metrics[-1].get("step", 0) if run.metrics else 0
        system = run.settings.get("model.variant") or run.settings.get("model.system") or ""
        return [run.name, str(system), "", f"not finished, at step {last:,}", *("" for _ in COLUMNS[4:])]
    return [
        run.name,
        str(result.get("system", "")),
        _number(result.get("parameters"), 0),
        _scored(run, "validation"),
        _scored(run, "test"),
        _number(result.get("seconds_per_epoch"), 1),
        _number(result.get("tokens_per_second"), 0),
        str(result.get("seed", "")),
        str((result.get("machine") or {}).get("commit", "")),
        _number(result.get("best_step"), 0),
    ]


def _score(run: RunFacts, split: str) -> float | None:
    return ((run.result or {}).get(split) or {}).get(run.metric)


def _scored(run: RunFacts, split: str) -> str:
    value = _score(run, split)
    return "—" if value is None else f"{value:.4f} {run.metric}"


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:,.{digits}f}"


def _curves(runs: list[RunFacts], metric: str) -> str:
    """Training loss above, the validation metric below; against steps and against seconds."""
    figure = new_figure(11, 7.5)
    axes = figure.subplots(2, 2, sharey="row")
    for column, against in enumerate(("step", "seconds")):
        for number, run in enumerate(runs):
            colour = f"C{number % 10}"
            for row, (key, marker) in enumerate((("loss", "-"), (f"eval_{metric}", "o-"))):
                points = run.series(key, against)
                if points:
                    label = plain(run.name)
                    axes[row, column].plot(*zip(*points, strict=True), marker, color=colour, label=label, markersize=4)
        axes[0, column].set(ylabel="training loss" if column == 0 else "")
        axes[1, column].set(xlabel=against, ylabel=f"validation {metric}" if column == 0 else "")
    for axis in axes.flat:
        axis.grid(alpha=0.3)
    if axes[0, 0].lines:
        axes[0, 0].legend(fontsize=8)
    sentence = (
        f"Training loss above, validation {metric} below; on the left against steps, on the right against the seconds"
        " they took, which compare only between runs of one machine."
    )
    return section(f"Curves: {metric}", sentence, figure_image(figure, f"training loss and validation {metric}"))


def _confusion(run: RunFacts) -> str:
    parts = []
    for evaluation in run.evaluations:
        if "confusion" not in evaluation:
            continue
        labels = [str(score.get("label")) for score in evaluation.get("classes", [])]
        parts.append(heading(f"{evaluation.get('rows', '')}: accuracy {evaluation.get('accuracy', 0):.4f}"))
        if len(labels) <= MOST_CLASSES:
            parts.append(confusion(labels, evaluation["confusion"]))
        else:
            parts.append(paragraph(f"{len(labels)} classes are too many to draw; these were confused most often:"))
            parts.append(table(["true", "predicted", "rows"], _mistakes(labels, evaluation["confusion"])))
    sentence = "Rows are the true classes, columns what the model said; the darker, the larger the share of its row."
    return section(f"Confusion: {run.name}", sentence, *parts)


def _mistakes(labels: list[str], counts: list[list[int]]) -> list[list[str]]:
    wrong = [(count, i, j) for i, row in enumerate(counts) for j, count in enumerate(row) if i != j and count]
    return [[labels[i], labels[j], f"{count:,}"] for count, i, j in sorted(wrong, reverse=True)[:MOST_MISTAKES]]
