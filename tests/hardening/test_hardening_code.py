"""Files that would run code if they were loaded unsafely: no command runs it."""

import json
import pickle
import shutil
from pathlib import Path

import pytest

from hardening.program import call
from hardening.runs import TINY, Runs
from transevolve.runs.storage import MANIFEST, checkpoints, write_manifest

MARKER = "it-ran"
# Files that the Trainer or the hub's loaders look for, and that a run need not have: no command refuses them.
BESIDE = ["training_args.bin", "pytorch_model.bin", "adapter_model.bin", "scaler.pt", "vocab.txt", "results.json"]
RESUMED = ["optimizer.pt", "scheduler.pt", "rng_state.pth"]
LOADED = ["model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json", "recipe.yaml"]
CODE = f"open({MARKER!r}, 'w').close()\n"
REMOTE = {
    "AutoConfig": "evil.Config",
    "AutoModel": "evil.Model",
    "AutoModelForSequenceClassification": "evil.Model",
    "AutoModelForSeq2SeqLM": "evil.Model",
    "AutoTokenizer": ["evil.Tokenizer", "evil.Tokenizer"],
}
YAML = [
    f"!!python/object/apply:builtins.open ['{MARKER}', 'w']",
    f"!!python/object/new:os.system [touch {MARKER}]",
    f"!!python/object/apply:subprocess.check_output [[touch, {MARKER}]]",
]


class Evil:
    def __reduce__(self):
        return open, (MARKER, "w")


@pytest.fixture
def commands(runs: Runs) -> list[list[str]]:
    more = ["--training.save_steps=1", "--training.keep=3", "--data.vocab_size=200"]
    return [
        ["predict", "run", "great film"],
        ["evaluate", "run", "--file", str(runs.table), "--output", "out"],
        ["translate", "run", "great film"],
        ["explain", "run", "great film", "--output", "out.html"],
        ["export", "run", "--format", "hf", "--output", "exported"],
        ["average", "run", "--last", "2", "--output", "mean"],
        ["report", "run", "--output", "report.html"],
        ["train", "--data.path", str(runs.table), *TINY, *more, "--output", "run"],
        ["train", "run/recipe.yaml", "--data.path=nowhere", "--output", "again"],
    ]


def fresh(origin: Path) -> list[Path]:
    """A copy of a run whose training has a step to go; the folders of it to plant things in."""
    shutil.rmtree("run", ignore_errors=True)
    shutil.copytree(origin, "run")
    (Path("run") / "results.json").unlink()
    shutil.rmtree(checkpoints(Path("run/checkpoints"))[-1][1])
    return [Path("run"), *(path for _, path in checkpoints(Path("run/checkpoints")))]


def sum_again(folder: Path) -> None:
    names = json.loads((folder / MANIFEST).read_text())["sha256"]
    write_manifest(folder, [name for name in names if (folder / name).is_file()])


def nothing_ran(commands: list[list[str]]) -> None:
    for words in commands:
        call(words)
        assert not Path(MARKER).exists(), words


def test_a_planted_pickle_would_run_its_code(sandbox):
    Path("x").write_bytes(pickle.dumps(Evil()))
    pickle.loads(Path("x").read_bytes()).close()
    assert Path(MARKER).exists()


def plant(folders: list[Path], *names: str) -> None:
    for folder in folders:
        for name in names:
            (folder / name).write_bytes(pickle.dumps(Evil()))
        sum_again(folder)


def test_pickles_beside(runs, commands, sandbox):
    plant(fresh(runs.words), *BESIDE)
    nothing_ran(commands)


def test_pickles_instead_of_weights(runs, commands, sandbox):
    folders = fresh(runs.words)
    for folder in folders:
        (folder / "model.safetensors").unlink()
    plant(folders, "pytorch_model.bin")
    nothing_ran(commands)


@pytest.mark.parametrize("name", RESUMED)
def test_pickles_to_resume_from(name, runs, commands, sandbox):
    plant(fresh(runs.words), name)
    nothing_ran([words for words in commands if words[0] == "train"])


@pytest.mark.parametrize("name", LOADED)
def test_pickles_to_load(name, runs, commands, sandbox):
    plant(fresh(runs.words), name)
    nothing_ran(commands)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*BESIDE, *RESUMED])
def test_pickles_one_by_one(name, runs, commands, sandbox):
    plant(fresh(runs.words), name)
    nothing_ran(commands)


@pytest.mark.parametrize("file", ["config.json", "tokenizer_config.json"])
def test_remote_code(file, runs, commands, sandbox):
    for folder in fresh(runs.words):
        path = folder / file
        content = json.loads(path.read_text())
        content |= {"auto_map": REMOTE, "model_type": "evil", "tokenizer_class": "evil.Tokenizer"}
        path.write_text(json.dumps(content))
        (folder / "evil.py").write_text(CODE)
        sum_again(folder)
    nothing_ran(commands)


@pytest.mark.parametrize("written", YAML)
def test_recipes(written, runs, commands, sandbox):
    (folder, *_) = fresh(runs.words)
    path = folder / "recipe.yaml"
    path.write_text(path.read_text().replace("seed: 0", f"seed: {written}"))
    sum_again(folder)
    Path("sweep.yaml").write_text(f"recipe: {written}\nseeds: {written}\n")
    nothing_ran([["sweep", "sweep.yaml"], ["recipes", "run/recipe.yaml"], ["train", f"--training.seed={written}"]])
    nothing_ran([words for words in commands if words[0] in ("train", "evaluate", "export", "report")])
