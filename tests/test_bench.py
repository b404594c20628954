"""Benchmarks: measurements, summaries, and resumption."""

import json
import os
import re
from dataclasses import replace
from importlib.util import find_spec
from types import SimpleNamespace

import pytest
import torch
from torch.optim import SGD

from transevolve.bench.budget import largest_batch
from transevolve.bench.cell import Cell, load, random_inputs
from transevolve.bench.ctranslate import Engine
from transevolve.bench.decode import build, measure_decode
from transevolve.bench.options import BenchOptions, DecodeOptions, SpeedOptions
from transevolve.bench.plot import plot
from transevolve.bench.results import Row
from transevolve.bench.summary import Baseline, memory_ratio, speed_ratio, spread, tokens_per_second, transformers
from transevolve.bench.systems import backend_at, build_model, feature_count, parse_spec
from transevolve.cli import main
from transevolve.commands import doctor
from transevolve.core.environment import OPENMP_VARIABLES
from transevolve.core.machine import cpu_flags
from transevolve.core.values import parse_bytes
from transevolve.training.optimizer import OPTIMIZERS

TINY = ["--vocab", "100", "--threads", "1", "--mode", "forward"]
SPEED = ["bench", "speed", *TINY, "--repeats", "3", "--warmup", "1", "--batch", "1"]
THREE = ["--systems", "fullFF-1:literal", "transformer", "transformer-eager"]


def rows_of(path) -> list[dict]:
    return json.loads(path.read_text())["rows"]


def row(system: str, seconds: list[float], *, batch: int = 2, size: str = "small", **values) -> Row:
    return Row(system, "", size, 64, batch, seconds=seconds, **values)


def test_speed_writes_every_repeat_a_table_and_a_plot(tmp_path, capsys):
    assert main([*SPEED, *THREE, "transformer@base", "--lengths", "16", "--output", str(tmp_path)]) == 0
    rows = rows_of(tmp_path / "speed.json")
    assert [r["system"] for r in rows] == [*THREE[1:], "transformer@base"]
    assert all(len(r["seconds"]) == 3 and r["note"] is None for r in rows)
    page = (tmp_path / "speed.md").read_text()
    command = "transevolve bench speed --systems fullFF-1:literal transformer transformer-eager transformer@base"
    for expected in (f"- command: `{command}", "- machine:", "- threads: `1`", "torch", "- commit:", "| sdpa |"):
        assert expected in page
    assert (tmp_path / "speed.png").stat().st_size > 1000
    assert "tokens/s" in capsys.readouterr().out


def test_a_table_names_the_environment_that_numbers_depend_on(tmp_path, monkeypatch):
    for name in [name for name in os.environ if name.startswith(OPENMP_VARIABLES)]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("OMP_WAIT_POLICY", "PASSIVE")
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "1234567")
    speed = [*SPEED, "--systems", "transformer", "--lengths", "8", "--output", str(tmp_path)]
    assert main(speed) == 0
    assert "- allocator: `MALLOC_TRIM_THRESHOLD_=1234567`" in (tmp_path / "speed.md").read_text()
    monkeypatch.delenv("MALLOC_TRIM_THRESHOLD_")
    assert main([*speed, "--restart"]) == 0
    page = (tmp_path / "speed.md").read_text()
    assert "MALLOC_TRIM" not in page
    assert "- OpenMP: `OMP_WAIT_POLICY=PASSIVE`" in page
    assert f"- cpu flags: `{cpu_flags()}`" in page


def test_a_training_step_is_measured_too(tmp_path):
    arguments = ["--systems", "transformer", "--lengths", "8", "--mode", "train", "--batch", "tokens:16"]
    assert main([*SPEED, *arguments, "--output", str(tmp_path)]) == 0
    (only,) = rows_of(tmp_path / "speed.json")
    assert only["batch"] == 2
    assert len(only["seconds"]) == 3


def test_a_training_step_uses_the_optimizer_of_training(monkeypatch):
    built = []
    monkeypatch.setitem(OPTIMIZERS, "adamw", lambda groups, options: built.append(SGD(groups, lr=1.0)) or built[-1])
    spec = parse_spec("fullFF-1", "small")
    cell = Cell.of(spec, BenchOptions(vocab=20), 4, 1)
    load(cell, spec).step(random_inputs(cell, 1, 4))
    assert [group["lr"] for group in built[0].param_groups] == [1e-4, 1e-4]


def test_the_same_command_resumes_where_it_stopped(tmp_path, capsys):
    command = [*SPEED, "--systems", "transformer", "--lengths", "8", "16", "--output", str(tmp_path)]
    assert main(command) == 0
    path = tmp_path / "speed.json"
    stored = json.loads(path.read_text())
    finished = stored["rows"].pop(0)
    stored["rows"] = [finished]
    path.write_text(json.dumps(stored))
    assert main(command) == 0
    assert "length 8: already measured" in capsys.readouterr().err
    assert [r["length"] for r in rows_of(path)] == [8, 16]
    assert rows_of(path)[0] == finished


DECODE = ["bench", "decode", "--systems", "fullFF-1", "marian", "--size", "small", "--vocab", "50", "--threads", "1"]
DECODE += ["--batch", "1", "--beams", "2", "--new_tokens", "3", "--source_length", "4", "--repeats", "2"]


def test_decoding_writes_a_table_and_a_plot_and_resumes(tmp_path, capsys):
    command = [*DECODE, "--output", str(tmp_path)]
    assert main(command) == 0
    path = tmp_path / "decode.json"
    rows = rows_of(path)
    assert [(r["system"], r["way"]) for r in rows] == [
        ("fullFF-1", "generate"),
        ("fullFF-1", "uncached"),
        ("fullFF-1", "beam"),
        ("marian", "generate"),
        ("marian", "beam"),
    ]
    assert [len(r["seconds"]) for r in rows] == [2, 1, 2, 2, 2]
    page = (tmp_path / "decode.md").read_text()
    for expected in ("- machine:", "- cpu flags:", "- OpenMP:", "- allocator:", "| speed / marian generate |"):
        assert expected in page
    assert (tmp_path / "decode.png").stat().st_size > 1000
    assert main(command) == 0
    assert "already measured" in capsys.readouterr().err
    assert rows_of(path) == rows

    stopped = json.loads(path.read_text())
    for row in stopped["rows"]:
        row["seconds"], row["cpu_seconds"] = row["seconds"][:1], row["cpu_seconds"][:1]
    path.write_text(json.dumps(stopped))
    assert main(command) == 0
    assert [len(r["seconds"]) for r in rows_of(path)] == [2, 1, 2, 2, 2]
    assert [r["seconds"][0] for r in rows_of(path)] == [r["seconds"][0] for r in rows]
    assert "round 1 of 2" not in capsys.readouterr().err
    assert main([*command, "--seed", "1"]) == 2
    assert "seed was 0, is 1" in capsys.readouterr().err


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"settings": {}, "rows": [{"system": 1}]}'])
def test_a_file_that_is_not_a_benchmark_is_kept(content, tmp_path, capsys):
    (tmp_path / "decode.json").write_text(content)
    assert main([*DECODE, "--output", str(tmp_path)]) == 2
    complaint = capsys.readouterr().err
    assert "--restart overwrites it" in complaint
    assert complaint.count("\n") == 1
    assert (tmp_path / "decode.json").read_text() == content


def test_a_system_named_like_markup_is_plotted(tmp_path):
    rows = [row("a$^$b", [1.0]), row("[/x]", [2.0]), replace(row("a$^$b", [1.0]), length=128)]
    for shown in (rows, rows[:2]):
        plot(tmp_path / "plot.png", "a $^$ title", shown, tokens_per_second, "tokens per second")
        assert (tmp_path / "plot.png").stat().st_size > 1000


def test_other_settings_are_an_error_without_restart(tmp_path, capsys):
    command = [*SPEED, "--systems", "transformer", "--lengths", "8", "--output", str(tmp_path)]
    assert main(command) == 0
    assert main([*command, "--seed", "1"]) == 2
    complaint = capsys.readouterr().err
    assert "seed was 0, is 1" in complaint
    assert "--restart" in complaint
    assert main([*command, "--seed", "1", "--restart"]) == 0


def test_a_system_that_does_not_fit_is_noted_and_the_run_continues(tmp_path):
    too_long = 2**17  # attention matrices of 550 GB
    arguments = ["--systems", "transformer-eager", "--lengths", str(too_long), "8", "--warmup", "0"]
    assert main([*SPEED, *arguments, "--output", str(tmp_path)]) == 0
    notes = {r["length"]: r["note"] for r in rows_of(tmp_path / "speed.json")}
    assert notes == {too_long: "does not fit in memory", 8: None}
    assert "does not fit in memory" in (tmp_path / "speed.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--systems", "tranformer"], "unknown system 'tranformer'; did you mean 'transformer'?"),
        (["--systems", "fullFF-1:litteral"], "did you mean 'literal'?"),
        (["--systems", "fullFF-3"], "did you mean 'fullFF-"),
        (["--systems", "transformer@bas"], "did you mean 'base'?"),
        (["--systems", "transformer:once"], "only TransEvolve takes a backend"),
        (["--systems", "transformer", "transformer"], "lists transformer twice"),
        (["--batch", "many"], "--batch must be a number, tokens:N or max, got 'many'"),
        (["--batch", "max"], "--batch max needs a memory budget"),
        (["--memory", "lots"], "--memory must be a size such as 4GB"),
        (["--device", "cuda:99"], "device 'cuda:99' is not available"),
        (["--lengths", "0"], "--lengths must be at least 1"),
        (["--repeats", "0"], "--repeats must be at least 1"),
    ],
)
def test_mistakes_are_found_before_anything_runs(arguments, message, tmp_path, capsys):
    assert main(["bench", "speed", "--output", str(tmp_path / "none"), *arguments]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


def test_memory_is_measured_in_its_own_process_and_over_budget_is_noted(tmp_path):
    arguments = ["--systems", "transformer-eager", "--lengths", "512", "--batch", "2", "--memory", "5MB"]
    assert main(["bench", "memory", *TINY, *arguments, "--output", str(tmp_path)]) == 0
    (only,) = rows_of(tmp_path / "memory.json")
    matrix = 2 * 8 * 512 * 512 * 4
    assert matrix < only["peak_bytes"] < 10 * matrix
    assert only["peak_counted_by"] in ("VmHWM", "sampled every millisecond")
    assert "over the budget of 5 MB" in only["note"]
    assert "over the budget" in (tmp_path / "memory.md").read_text()
    assert (tmp_path / "memory.png").exists()


@pytest.mark.parametrize("jump", [0, 700])
@pytest.mark.parametrize("budget", [999, 1000, 5432, 100_000])
def test_the_largest_batch_fills_the_budget_in_few_measurements(budget, jump):
    measured = []

    def peak(batch: int) -> int | None:
        measured.append(batch)
        return None if batch > 900 else 900 + 100 * batch + (jump if batch > 7 else 0)

    found = largest_batch(peak, budget)
    fitting = [b for b in range(1, 901) if 900 + 100 * b + (jump if b > 7 else 0) <= budget]
    assert found == max(fitting, default=0)
    assert len(measured) < 20


def test_ratios_are_of_medians_with_the_spread_of_rounds():
    eager, fast = row("transformer-eager", [4.0, 6.0, 8.0]), row("fullFF-1:once", [2.0, 2.0, 4.0])
    ratio = speed_ratio(fast, eager)
    assert ratio.middle == 3.0
    assert (ratio.low, ratio.high) == (2.0, 2.5)


def test_ratios_are_per_token_for_any_batch_size():
    assert speed_ratio(row("a", [1.0], batch=6), row("transformer", [1.0], batch=2)).middle == 3.0
    heavy, light = row("a", [], batch=2, peak_bytes=800), row("transformer", [], batch=1, peak_bytes=100)
    assert memory_ratio(heavy, light) == 4.0


def test_a_baseline_is_of_the_same_size_and_ran():
    small, base = row("transformer", [1.0]), row("transformer@base", [2.0], size="base")
    mine = row("fullFF-1:once@base", [1.0], size="base")
    own, larger = Baseline("sdpa", "transformer"), Baseline("sdpa@base", "transformer", "base")
    assert own.find(mine, [small, base]) is base
    assert own.find(mine, [small, replace(base, note="does not fit")]) is None
    assert larger.find(small, [small, base]) is base
    assert own.find(small, [small, base]) is small
    assert [b.label for b in transformers([small, base])] == ["eager", "sdpa", "sdpa@base"]
    assert [b.label for b in transformers([small])] == ["eager", "sdpa"]


def test_spread_is_the_median_and_the_quartiles():
    found = spread([1.0, 2.0, 3.0, 4.0, 100.0])
    assert (found.low, found.middle, found.high) == (2.0, 3.0, 4.0)


def test_batches_follow_their_rule():
    assert BenchOptions(batch="8").batch_size(512) == 8
    assert BenchOptions(batch="tokens:4096").batch_size(512) == 8
    assert BenchOptions(batch="tokens:4096").batch_size(8192) == 1


@pytest.mark.parametrize(
    ("text", "count"), [("4GB", 4 * 10**9), ("1.5GiB", 3 * 2**29), ("512mb", 512 * 10**6), ("7B", 7)]
)
def test_sizes_are_decimal_or_binary(text, count):
    assert parse_bytes(text) == count


def test_a_spec_names_variant_backend_and_size():
    spec = parse_spec("randomFF-2:literal@base", "small")
    model = build_model(spec, length=16, vocab=100, features=None)
    config = model.config
    assert (config.feedforward, config.num_blocks, config.attention, config.hidden_size) == (
        "random",
        2,
        "literal",
        512,
    )


def test_features_reach_the_systems_that_have_them():
    spec = parse_spec("fullFF-1:linear", "small")
    assert feature_count(build_model(spec, length=16, vocab=100, features=24), spec) == 24
    other = parse_spec("transformer", "small")
    assert feature_count(build_model(other, length=16, vocab=100, features=24), other) is None


def test_a_row_names_what_auto_chose():
    spec = parse_spec("fullFF-1:auto", "small")
    assert backend_at(spec, 64, 1) == "auto: once"
    assert backend_at(spec, 2**20, 1) == "auto: fused"
    assert backend_at(parse_spec("transformer", "small"), 64, 1) == "sdpa"


def test_defaults_are_valid():
    assert [spec.size for spec in SpeedOptions().specs()] == ["small"] * 4


def test_doctor_names_what_speed_depends_on(monkeypatch, capsys):
    monkeypatch.setenv("OMP_WAIT_POLICY", "PASSIVE")
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "1234567")
    assert main(["doctor"]) == 0
    shown = capsys.readouterr().out
    for expected in (*cpu_flags().split(), "OMP_WAIT_POLICY=PASSIVE", "MALLOC_TRIM_THRESHOLD_=1234567", "threads"):
        assert expected in shown


def test_doctor_advises_only_options_that_exist(tmp_path, monkeypatch, capsys):
    """Every condition at once: no memory, no disk, no GPU, no compiler, a folder that cannot be written."""
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr(doctor, "available_memory", lambda: 10**6)
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda path: SimpleNamespace(free=1, total=2))
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
    monkeypatch.setattr(doctor.os, "access", lambda path, mode: False)
    monkeypatch.setattr(doctor, "find_spec", lambda name: None)
    monkeypatch.setattr(doctor.torch.cuda, "device_count", lambda: 0)
    assert main(["doctor"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    commands = re.findall(r"`transevolve ([a-z ]+?) (--[\w.]+)[^`]*`", shown)
    assert len(commands) == len(re.findall(r"--\w", shown)) >= 6
    for command, option in commands:
        assert main([*command.split(), "--help"]) == 0
        assert option in capsys.readouterr().out


@pytest.mark.skipif(find_spec("ctranslate2") is None, reason="CTranslate2 is not installed")
@pytest.mark.parametrize("int8", [False, True])
def test_ctranslate2_decodes_as_many_tokens(int8):
    options = DecodeOptions(systems=["marian"], size="small", vocab=50, beams=2, new_tokens=3, source_length=4, batch=2)
    engine = Engine(build("marian", options), int8)
    assert engine.decode(torch.randint(3, 49, (2, 4)), beams=2, new_tokens=3) == 3


def test_each_way_is_for_the_models_that_have_it(tmp_path):
    ways = ["beam", "int8", "ctranslate2"]
    sizes = {"size": "small", "vocab": 50, "beams": 2, "new_tokens": 2, "source_length": 3, "batch": 1, "repeats": 1}
    found = measure_decode(DecodeOptions(systems=["fullFF-1", "marian"], ways=ways, output=str(tmp_path), **sizes))
    engine = find_spec("ctranslate2") is not None
    timed = [(row.system, row.way) for row in found.rows if row.seconds]
    expected = [("fullFF-1", "beam"), ("fullFF-1", "int8"), ("marian", "beam"), ("marian", "ctranslate2")]
    assert timed == expected[: 4 if engine else 3]
