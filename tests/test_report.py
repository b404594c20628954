"""`transevolve report`: runs, finished or not, and benchmarks on a self-contained page."""

import json
import re
import shutil
from pathlib import Path

import pytest

from browser import WIDTHS, check_page, needs_chromium
from test_explain import NASTY, train_tiny
from transevolve.cli import main
from transevolve.reporting.axes import drawing, ticks
from transevolve.reporting.comparison import best, cases
from transevolve.reporting.content import Chart, Point, Series
from transevolve.reporting.report import points, report_page, run_table
from transevolve.reporting.runs import RunFacts, differences, read_run
from transevolve.runs.results import Result

SPEED = Path(__file__).parents[1] / "results" / "speed" / "train.json"
DECODE = Path(__file__).parents[1] / "results" / "decode" / "decode.json"
MEMORY = Path(__file__).parents[1] / "results" / "memory" / "train.json"


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = train_tiny(tmp_path_factory.mktemp("report"), "--training.log_steps=1")
    assert main(["evaluate", str(folder), "--split", "validation"]) == 0
    return folder


def report(tmp_path: Path, *paths: Path) -> str:
    output = tmp_path / "report.html"
    assert main(["report", *map(str, paths), "--output", str(output)]) == 0
    return output.read_text(encoding="utf-8")


def test_one_run(run, tmp_path):
    page = report(tmp_path, run)
    result = json.loads((run / "results.json").read_text())
    for expected in ("fullFF-1", f"{result['parameters']:,}", f"{result['validation']['accuracy']:.4f} ± "):
        assert expected in page
    assert result["machine"]["commit"] in page
    assert "Curves: accuracy" in page
    assert "Confusion: run" in page
    assert "What differs" not in page


def test_page_is_whole_and_safe(run, tmp_path):
    page = report(tmp_path, run, SPEED)
    assert NASTY not in page
    assert "&lt;b&gt;good" in page
    assert not re.search(r"<script|<link|@import", page)
    assert not re.search(r"(src|href)\s*=|url\(|https?://", page)
    assert "default-src 'none'" in page


def test_unfinished_runs_show_what_they_have(run, tmp_path):
    other = tmp_path / "stopped"
    other.mkdir()
    recipe = (run / "recipe.yaml").read_text().replace("block_depth: 2", "block_depth: 3")
    (other / "recipe.yaml").write_text(recipe)
    half = (run / "metrics.jsonl").read_text() + '{"step": 99, "lo'
    (other / "metrics.jsonl").write_text(half)
    page = report(tmp_path, run, other)
    assert "2 runs side by side" in page
    assert "not finished, at step 4" in page
    assert "<td>model.block_depth</td>" in page


def test_a_folder_of_runs_is_its_runs(run, tmp_path):
    for name in ("one", "two"):
        shutil.copytree(run, tmp_path / "runs" / name, ignore=shutil.ignore_patterns("checkpoints"))
    for folder in (tmp_path / "runs", tmp_path):
        page = report(tmp_path, folder)
        assert "<td>one</td>" in page
        assert "<td>two</td>" in page


def test_benchmarks(tmp_path):
    page = report(tmp_path, SPEED, MEMORY)
    for expected in ("Benchmark: speed", "Benchmark: memory", "tokens/s", "peak MB", "fullFF-1:once", "speed / sdpa"):
        assert expected in page


def test_a_decoding_benchmark_has_a_table_and_bars(tmp_path):
    page = report(tmp_path, DECODE)
    for expected in ("Benchmark: decode", "speed / marian generate", "uncached", "machine: AMD", 'class="bars"'):
        assert expected in page


def facts(name: str, accuracy: float, rows: int = 100, task: str = "files", metrics=(), **settings) -> RunFacts:
    result = Result(
        task=task,
        system="fullFF-1",
        parameters=1,
        parameters_without_embedding=1,
        epochs=[],
        best_step=1,
        selected_by="accuracy",
        selected_on="validation",
        validation={"accuracy": accuracy},
        test=None,
        seconds=1,
        seconds_per_epoch=1,
        tokens_per_second=1,
        seed=settings.get("training.seed", 0),
        command="",
        machine={},
        data={"splits": {"validation": {"rows": rows}}},
    )
    return RunFacts(name, result, list(metrics), settings)


@pytest.mark.parametrize(
    ("rows", "accuracies", "leaders"),
    [
        (100, (0.5, 0.75, 0.75), set()),
        (100, (0.5, 0.75, 0.8), set()),
        (10_000, (0.5, 0.75, 0.8), {2}),
        (10_000, (0.5,), set()),
    ],
)
def test_bold_is_a_lead_beyond_the_error(rows, accuracies, leaders):
    runs = [facts(f"run {n}", value, rows, size=n) for n, value in enumerate(accuracies)]
    assert best(cases(runs), "validation") == leaders
    assert run_table(runs, mark=True).best == {(n, 3) for n in leaders}


def test_a_score_without_an_error_is_never_bold():
    assert best(cases([facts("a", 0.5, rows=0, size=1), facts("b", 0.9, rows=0, size=2)]), "validation") == set()


def seeds(name: str, *accuracies: float, **settings) -> list[RunFacts]:
    return [
        facts(
            f"{name}-seed{seed}",
            value,
            metrics=[{"step": 10, "epoch": 1, "seconds": seed + 1.0, "eval_accuracy": value}],
            **{"training.seed": seed},
            **settings,
        )
        for seed, value in enumerate(accuracies)
    ]


def test_seeds_are_one_case_with_an_error_bar():
    runs = [*seeds("a", 0.5, 0.6, size=1), *seeds("b", 0.9, 0.8, size=2)]
    first, second = cases(runs)
    assert (first.name, second.name) == ("a (2 seeds)", "b (2 seeds)")
    assert str(first.score("validation")) == "0.5500 ± 0.0707"
    assert best([first, second], "validation") == {1}
    (point,) = points(first.runs, "eval_accuracy", "seconds")
    assert (point.x, point.y) == (1.5, 0.55)
    assert point.high - point.y == pytest.approx(0.0707, abs=1e-4)
    page = report_page(runs, [])
    assert '<line class="bar"' in page
    assert "<strong>0.8500 ± 0.0707 accuracy</strong>" in page


def test_the_same_seed_twice_is_two_cases():
    assert len(cases([*seeds("a", 0.5), *seeds("b", 0.5)])) == 2


def test_tasks_have_separate_axes():
    runs = [*seeds("a", 0.5, task="files"), *seeds("b", 0.5, task="listops")]
    page = report_page(runs, [])
    assert re.findall("Curves: [^<]*", page) == ["Curves: accuracy on files", "Curves: accuracy on listops"]
    assert not best(cases(runs), "validation")


def test_different_data_are_different_tasks():
    runs = [facts("a", 0.5, **{"data.path": "x/a.csv"}), facts("b", 0.9, 10_000, **{"data.path": "b.csv"})]
    assert [run.task for run in runs] == ["files, a.csv", "files, b.csv"]
    assert best(cases(runs), "validation") == set()


@pytest.mark.parametrize(
    ("low", "high", "expected"), [(0, 3, [0, 1, 2, 3]), (0.9, 2.1, [1, 2]), (0, 40, [0, 10, 20, 30, 40])]
)
def test_epochs_have_whole_ticks(low, high, expected):
    assert ticks(low, high, whole=True) == expected


@pytest.mark.parametrize(
    "values", [[0.0], [5.0, 5.0], [1e-300, 1e29], [-1e29, 1e29], [float("nan"), 1.0, float("inf")]]
)
@pytest.mark.parametrize("log", [False, True])
def test_any_numbers_can_be_drawn(values, log):
    chart = Chart("t", "x", [Series("s", 0, [Point(n + 1.0, value, "") for n, value in enumerate(values)])], log=log)
    drawn = drawing(chart)
    for mark in [mark for _, marks in (drawn.lines if drawn else []) for mark in marks]:
        assert 56 <= mark.x <= 424
        assert 10 <= mark.y <= 212


def test_values_are_shown_on_hover(run, tmp_path):
    page = report(tmp_path, run)
    assert re.search(r"<title>run: [01](\.\d+)? at epoch 1</title>", page)
    assert re.search(r"<title>run: \d[\d.]* at step 1</title>", page)


def test_damaged_lines_are_counted(run, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(run, folder, ignore=shutil.ignore_patterns("checkpoints"))
    lines = (run / "metrics.jsonl").read_text().splitlines()
    (folder / "metrics.jsonl").write_text("\n".join([lines[0], "{", *lines[1:]]) + "\n")
    assert "1 damaged lines of metrics.jsonl were skipped" in report(tmp_path, folder)


def test_names_are_text(run, tmp_path):
    folder = tmp_path / "<b>$^$ {{ 1 }}"
    shutil.copytree(run, folder, ignore=shutil.ignore_patterns("checkpoints"))
    page = report(tmp_path, folder)
    assert "&lt;b&gt;$^$ {{ 1 }}" in page
    assert "<b>" not in page


def test_only_settings_that_differ_are_shown():
    columns, rows = differences([facts("a", 0, seed=1, size="small"), facts("b", 0, seed=2, size="small")])
    assert columns == ["setting", "a", "b"]
    assert rows == [["seed", "1", "2"]]


def test_of_many_classes_the_mistakes_are_shown(run, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(run, folder, ignore=shutil.ignore_patterns("checkpoints"))
    counts = [[5 if i == j else int(j == i + 1) for j in range(40)] for i in range(40)]
    evaluation = {
        "rows": "test",
        "accuracy": 0.8,
        "classes": [{"label": f"c{i}"} for i in range(40)],
        "confusion": counts,
    }
    (folder / "test.evaluation.json").write_text(json.dumps(evaluation))
    assert "40 classes are too many to draw" in report(tmp_path, folder)
    assert len(read_run(folder, "run").evaluations) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "no run folder 'nowhere'"),
        (["."], "is not a run folder: it has no recipe.yaml"),
        (["nowhere.json"], "nowhere.json: no such file"),
        (["broken.json"], "is damaged: it is not valid JSON"),
        (["other.json"], "contains no benchmark"),
        (["other.json", "--output", "page.txt"], "must be a file that ends in .html"),
        ([], "paths"),
    ],
)
def test_mistakes_are_one_line(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("broken.json").write_text("{")
    Path("other.json").write_text("{}")
    assert main(["report", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.slow
@needs_chromium
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_page_fits_any_screen(width, dark, run, tmp_path):
    report(tmp_path, run, SPEED, MEMORY, DECODE)
    check_page(tmp_path / "report.html", width, dark)
