"""The command line: output, parsing of arguments, and error messages."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest
import torch
from cyclopts import App, Parameter

import transevolve
from training_support import PATIENCE
from transevolve.cli import COMMANDS, main, parse
from transevolve.config.command_line import POSITIONAL, as_command, convert
from transevolve.evolution.backends import BACKENDS
from transevolve.models.settings import VARIANTS
from transevolve.peers import SYSTEMS

HEAVY = {"torch", "transformers", "numpy", "datasets", "matplotlib", "pandas", "pyarrow", "sklearn", "scipy"}
LIGHT = """
import sys, time
from transevolve.cli import main
code = main(sys.argv[1:])
print("heavy:", sorted(set({heavy}) & set(sys.modules)), "cpu:", time.process_time(), file=sys.stderr)
print("modules:", len(sys.modules), file=sys.stderr)
sys.exit(code)
"""


def run(*words: str, **settings: Any) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "transevolve", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE, **settings)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--help"], 0),
        (["--version"], 0),
        (["train", "--help"], 0),
        (["predict", "-h"], 0),
        (["bench", "speed", "--help"], 0),
        (["bench", "decode", "--help"], 0),
        (["recipes"], 0),
        (["recipes", "demo"], 0),
        (["tain"], 2),
        (["train", "--data.pth", "x.csv"], 2),
        (["train", "--training.epochs", "many"], 2),
        (["train", "no-such-recipe"], 2),
        (["predict", "run", "--jsn"], 2),
    ],
    ids=str,
)
def test_what_needs_no_model_imports_no_library_of_models(words, code):
    script = LIGHT.format(heavy=HEAVY)
    command = [sys.executable, "-c", script, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == code, done.stderr
    seconds = re.search(r"heavy: \[\] cpu: ([\d.]+)", done.stderr)
    assert seconds, done.stderr
    assert float(seconds[1]) < 2  # 0.2 on a quiet machine
    assert int(re.search(r"modules: (\d+)", done.stderr)[1]) < 400


def test_systems_are_listed_without_importing_them_again(tmp_path):
    shown = []
    for heavy in (True, False):
        done = subprocess.run(
            [sys.executable, "-c", LIGHT.format(heavy=HEAVY), "systems"],
            env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert ("heavy: []" in done.stderr) != heavy
        shown.append(done.stdout)
    assert shown[0] == shown[1]


def test_help_shows_common_options_first_and_types_in_words():
    shown = run("train", "--help", env={**os.environ, "COLUMNS": "80"}).stdout
    common, data = shown.index("Common options"), shown.index("─ Data ")
    assert shown.index("RECIPE") < shown.index("--output TEXT") < common < data
    assert common < shown.index("--data.path TEXT") < shown.index("--training.epochs NUMBER") < data
    assert not re.search(r" (STR|INT|FLOAT|CHOICE)\b", shown)


def test_runs_as_a_module():
    assert run("--version").stdout.split() == ["transevolve", transevolve.__version__]


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_explains_its_options(name, capsys):
    assert main([*name.split(), "--help"]) == 0
    assert f"transevolve {name}" in capsys.readouterr().out


@pytest.mark.parametrize("words", [[], ["--help"], ["bench"]], ids=str)
def test_the_program_and_a_group_list_their_commands(words, capsys):
    assert main(words) == 0
    shown = capsys.readouterr().out
    for name in COMMANDS:
        assert not name.startswith(" ".join(words)) or name.split()[-1] in shown


@pytest.mark.parametrize("name", ["train", "translate"])
def test_names_are_whole_at_80_columns(name):
    shown = run(name, "--help", env={**os.environ, "COLUMNS": "80"}).stdout
    found = set(re.findall(r"--[\w.]+", shown))
    assert max(map(len, shown.splitlines())) <= 80
    for option in ("--training.gradient_checkpointing", "--model.attention_memory_budget", "--length_penalty"):
        assert option in found or ("." in option) != (name == "train")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["sytems"], "unknown command 'sytems'; did you mean 'systems'?"),
        (["bench", "sped"], "unknown command 'bench sped'; did you mean 'speed'?"),
        (["--verison"], "unknown option '--verison' before a command"),
        (["bench", "speed", "--lenghts", "8"], "unknown option '--lenghts'; did you mean '--lengths'?"),
        (["bench", "speed", "--size", "smal"], "--size: 'smal' is not 'small' or 'base'; did you mean 'small'?"),
        (["bench", "speed", "--threads", "two"], "--threads: 'two' is not an integer"),
        (["bench", "speed", "--threads", "1.5"], "--threads: '1.5' is not an integer"),
        (["bench", "speed", "--lengths", "8", "x"], "--lengths: 'x' is not an integer"),
        (["bench", "speed", "--lengths", "0"], "--lengths must be at least 1"),
        (["bench", "speed", "stray"], "unexpected argument 'stray'"),
        (["predict"], "RUN"),
        (["predict", "run", "--jsn"], "unknown option '--jsn'; did you mean '--json'?"),
        (["predict", "run", "--batch_toknes=3"], "did you mean '--batch_tokens'?"),
        (["average", "run", "--last", "0"], "--last must be at least 1, not 0"),
        (["quantize", "run", "--threads", str(2**63)], "--threads must be 1 to 4,096"),
        (["train", "--training", "3"], "--training: set one of its settings"),
        (["train", "--training.epochs"], "--training.epochs"),
        (["train", "--training.epochs", ".inf"], "--training.epochs: '.inf' is not a number"),
        (["train", "--training.epochs", "nan"], "--training.epochs: 'nan' is not a number"),
        (["train", "my.csv"], "did you mean --data.path my.csv?"),
        (["train", "a\0b"], "NUL"),
        (["train", "--model.varant=fullFF-1"], "did you mean '--model.variant'?"),
    ],
    ids=str,
)
def test_a_mistake_is_one_line_and_exit_code_2(arguments, complaint, capsys):
    assert main(arguments) == 2
    shown = capsys.readouterr().err
    assert complaint in shown
    assert shown.count("\n") == 1
    assert shown.startswith("transevolve: error: ")


@pytest.mark.parametrize(
    ("flag", "value", "complaint"),
    [
        ("training.beams", "0", "training.beams: must be at least 1"),
        ("training.eval_beams", "-1", "training.eval_beams: must be at least 1"),
        ("training.eps", "0", "training.eps: must be in (0, 1]"),
        ("training.eps", "-1", "training.eps: must be in (0, 1]"),
        ("training.epochs", "0", "training.epochs: must be in (0"),
        ("training.seed", str(2**32), "training.seed: must be at most"),
        ("training.workers", "-1", "training.workers: must be at least 0"),
        ("data.vocab_size", str(2**63 - 1), "data.vocab_size: must be at most"),
        ("data.vocab_size", str(10**12), "data.vocab_size: must be at most"),
        ("model.variant", "fullFF-3", "did you mean 'fullFF-2'?"),
        ("model.num_blocks", "1000000", "model.num_blocks: must be at most"),
        ("model.dropout", "1", "model.dropout: must be in [0, 1)"),
        ("model.system", "transfomer", "unknown model.system 'transfomer'; did you mean 'transformer'?"),
        ("model.system", "marian", "model.system 'marian' has no model 'ForSequenceClassification'"),
        ("model.attention", "ones", "unknown attention 'ones'; did you mean 'once'?"),
        ("model.hidden_size", "33", "hidden_size=33 does not split"),
        ("model.settings", "{rank: 3}", "model.settings is for other systems"),
        ("training.schedule", "linaer", "did you mean 'linear'?"),
        ("training.memory", "much", "training.memory"),
    ],
)
def test_a_value_out_of_range_is_refused_before_data_is_read(flag, value, complaint, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for command in ("train", "plan", *(["prepare"] if flag.startswith("model.") else [])):
        assert main([command, "--data.path", "nowhere.csv", f"--{flag}", value, "--output", "out"]) == 2
        assert complaint in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--model.system=linformer", "--model.settings={rank: 0}"], "rank must be"),
        (["--model.system=linformer", "--model.settings={nothing: 3}"], "has no setting 'nothing'"),
        (["--model.system=nystromformer", "--model.settings={kernel: 4}"], "kernel must be odd"),
        (["--model.system=rfa", "--model.settings={features: 7}"], "features must be even"),
        (["--model.hidden_size=32", "--model.num_attention_heads=3"], "does not split into 3 heads"),
        (["--model.size=small", "--model.num_attention_heads=3"], "does not split into 3 heads"),
        (["--model.num_attention_heads=3"], "nowhere.csv"),
        (["--model.hidden_size=100"], "nowhere.csv"),
    ],
    ids=str,
)
def test_settings_that_exclude_each_other_are_refused_before_data_is_read(words, complaint, capsys):
    """Widths and numbers of heads that may fit the other, which depends on the data, are not refused yet."""
    assert main(["train", "--data.path=nowhere.csv", *words, "--output=out"]) == 2
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize("flag", ["beams", "eval_beams"])
def test_beams_must_fit_the_vocabulary(flag, tmp_path, monkeypatch, capsys):
    """Checked before the data are read if data.vocab_size is set, and again with the learned tokenizer."""
    monkeypatch.chdir(tmp_path)
    words = ["--data.source=a", "--data.target=b", f"--training.{flag}=151", "--output=out"]
    for command in ("train", "plan", "prepare"):
        assert main([command, *words, "--data.vocab_size=300"]) == 2
        assert "151 beams need a vocabulary of at least 302 tokens, but it has 300" in capsys.readouterr().err
    for side in "ab":
        (tmp_path / side).write_text("one two three\n" * 40)
    assert main(["train", *words, "--data.vocab_size=5000"]) == 2
    shown = capsys.readouterr().err
    assert "151 beams need a vocabulary of at least 302 tokens, but it has" in shown
    assert "validation at step" not in shown
    assert main(["train", "--data.path=nowhere.csv", "--data.vocab_size=8", "--output=out"]) == 2
    assert "nowhere.csv" in capsys.readouterr().err, "a classifier has no beams"


@pytest.mark.parametrize("words", [["recipes"], ["recipes", "demo"], ["train", "--help"]], ids=str)
def test_output_on_a_full_disk_is_one_line(words):
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "transevolve", *words]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 2
    assert done.stderr == "transevolve: error: could not write the output: no space left on the disk\n"


def test_debug_shows_the_traceback(capsys):
    assert main(["sytems", "--debug"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_systems_lists_every_variant_backend_and_peer(capsys):
    assert main(["systems"]) == 0
    shown = capsys.readouterr().out
    for name in [*VARIANTS, *BACKENDS, *SYSTEMS]:
        assert name in shown
    assert "NeurIPS 2017" in shown
    assert "n^2 d" in shown


def test_doctor_reports_versions_memory_and_what_auto_chooses(capsys):
    assert main(["doctor"]) == 0
    shown = capsys.readouterr().out
    for expected in (torch.__version__, "free memory", "free disk", "from 16", "literal", "fused", "ready"):
        assert expected in shown


@dataclass
class Sample:
    """One option of each type.

    Args:
        run: Which run.
        texts: What to say.
        kind: Which kind.
        count: How many.
        quiet: Say less.
        lengths: How long.
        n_best: How many of the best.
    """

    run: str = field(metadata=POSITIONAL)
    texts: list[str] = field(default_factory=list, metadata=POSITIONAL)
    kind: Literal["small", "large"] = "small"
    count: int | None = None
    quiet: bool = False
    lengths: list[int] = field(default_factory=lambda: [1, 2])
    n_best: int = 1


def sample(*words: str) -> Sample:
    app = App(default_parameter=Parameter(name_transform=str, converter=convert, consume_multiple=True))
    app.default(as_command(Sample, "A sample."))
    return app(words, exit_on_error=False, print_error=False, result_action="return_value")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["run"], Sample("run")),
        (["run", "a", "b"], Sample("run", ["a", "b"])),
        (["run", "a", "--quiet", "b"], Sample("run", ["a", "b"], quiet=True)),
        (["--quiet", "run", "a"], Sample("run", ["a"], quiet=True)),
        (["run", "--lengths", "4", "5", "--n_best=3"], Sample("run", lengths=[4, 5], n_best=3)),
        (["run", "--kind=large", "--count", "3"], Sample("run", kind="large", count=3)),
        (["run", "--count=null"], Sample("run")),
        (["run", "--no-quiet"], Sample("run")),
        (["run", "--", "-h", "--debug", "--quiet"], Sample("run", ["-h", "--debug", "--quiet"])),
        (["run", "-1 star", "-5"], Sample("run", ["-1 star", "-5"])),
    ],
    ids=str,
)
def test_arguments_become_options(words, expected):
    assert sample(*words) == expected


def test_texts_after_two_dashes_are_texts():
    options = parse(["predict", "run", "a", "--json", "--", "-h", "--debug", "--json", "--"])[1]
    assert options.texts == ["a", "-h", "--debug", "--json", "--"]
    assert options.json


def loaded(*words: str) -> dict:
    return parse(["train", *words])[1].overrides()


@pytest.mark.parametrize(
    ("words", "section", "expected"),
    [
        (["--training.compile", "true"], "training", {"compile": True}),
        (["--training.compile=false"], "training", {"compile": False}),
        (["--training.compile"], "training", {"compile": True}),
        (["--training.no-compile"], "training", {"compile": False}),
        (["--training.batch_tokens", "64"], "training", {"batch_tokens": 64}),
        (["--training.seed", "1", "--training.seed=2"], "training", {"seed": 2}),
        (["--training.max_steps=null"], "training", {"max_steps": None}),
        (["--data.label", "#label"], "data", {"label": "#label"}),
        (["--data.label", "1e3"], "data", {"label": "1e3"}),
        (["--data.label", "null"], "data", {"label": "null"}),
        (["--data.label=12:30"], "data", {"label": "12:30"}),
        (["--data.validation", "0.2"], "data", {"validation": 0.2}),
        (["--model.settings", '{"features": 128}'], "model", {"settings": {"features": 128}}),
        (["--model.settings={features: 128, kind: dense}"], "model", {"settings": {"features": 128, "kind": "dense"}}),
        (["--model.settings.features=128"], "model", {"settings": {"features": 128}}),
        (["--model.evolution", "none"], "model", {"evolution": "none"}),
        (["--model.attention_memory_budget=1000"], "model", {"attention_memory_budget": 1000}),
    ],
    ids=str,
)
def test_flags_are_read_by_their_type(words, section, expected):
    assert loaded(*words)[section] == expected


def test_completion_covers_every_command_and_option():
    from transevolve.cli import COMPLETION, build_app

    script = build_app([COMPLETION]).generate_completion(shell="bash")
    for expected in ("translate", "--n_best", "--training.epochs", "--lengths"):
        assert expected in script


@pytest.mark.parametrize(
    "lines",
    [
        "import transevolve, transformers",
        *(
            pytest.param(lines, marks=pytest.mark.slow)
            for lines in (
                "import transformers, transevolve",
                "from transformers import AutoConfig; import transevolve",
                "from transevolve import TransEvolveConfig",
                "from transevolve import PeerConfig",
                "import transevolve.models.encoder",
            )
        ),
    ],
)
def test_import_registers_the_auto_classes(lines):
    check = "from transformers import AutoConfig; print(*(AutoConfig.for_model(n).model_type for n in NAMES))"
    script = f"{lines}\nNAMES = ['transevolve', 'transevolve-peer']\n{check}"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.stdout.split() == ["transevolve", "transevolve-peer"], done.stderr


def test_importing_the_package_imports_neither_torch_nor_transformers():
    script = f"import sys, transevolve; print(sorted({HEAVY} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "[]\n"
