"""The wheel and the sdist install and work, and importing the package is cheap."""

import ast
import os
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from training_support import TINY, write_csv
from transevolve.cli import main

ROOT = Path(__file__).parent.parent
HEAVY = ["accelerate", "datasets", "matplotlib", "pyarrow", "sacrebleu", "rich"]
CORPORA = ["datasets", "pandas", "matplotlib", "sacrebleu"]


def run(*command: object, **settings) -> str:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, **settings)
    assert done.returncode == 0, f"{command}: {done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """A folder with the sdist, and the wheel that is built from the sdist's own files."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", folder, cwd=ROOT)
    with tarfile.open(next(folder.glob("*.tar.gz"))) as packed:
        packed.extractall(folder, filter="data")
    source = next(path for path in folder.iterdir() if path.is_dir())
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=source)
    return folder


def use(python: Path, folder: Path) -> None:
    """Trains on a file and predicts; recipes are included; nothing from the checkout is used."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    write_csv(folder / "my.csv", rows=40)
    program = python.parent / "transevolve"
    assert "cpu/agnews" in run(program, "recipes", cwd=folder, env=environment)
    training = ["train", "--data.path", "my.csv", "--output", "run", "--training.epochs=1", *TINY]
    run(program, *training, cwd=folder, env=environment)
    label, probability = run(program, "predict", "run", "a lovely film", cwd=folder, env=environment).split("\t")
    assert label in {"yes", "no"}
    assert 0.5 <= float(probability) <= 1
    home = run(python, "-c", "import transevolve; print(transevolve.__file__)", cwd=folder, env=environment)
    assert str(ROOT / "src") not in home


@pytest.mark.slow
def test_wheel_works_with_its_dependencies(built, tmp_path):
    """A separate environment with the wheel; its dependencies come from this one."""
    venv.create(tmp_path / "venv", with_pip=False)
    python = tmp_path / "venv" / "bin" / "python"
    wheel = next(built.glob("*.whl"))
    run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index", wheel)
    site = next((tmp_path / "venv" / "lib").glob("python*/site-packages"))
    (site / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    use(python, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["*.whl", "*.tar.gz"])
def test_installs_into_an_empty_environment(built, tmp_path, kind):
    """Installed with all dependencies from the package index."""
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    package = next(built.glob(kind))
    run(python, "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt", package)
    use(python, tmp_path)


def test_import_is_light():
    listing = f"import sys, transevolve; print([name for name in {HEAVY} if name in sys.modules])"
    assert run(sys.executable, "-c", listing).strip() == "[]"


def test_a_prediction_reads_no_library_for_corpora(tmp_path):
    write_csv(tmp_path / "my.csv", rows=40)
    assert main(["train", "--data.path", str(tmp_path / "my.csv"), "--output", str(tmp_path / "run"), *TINY]) == 0
    asked = f"from transevolve.cli import main; main(['predict', {str(tmp_path / 'run')!r}, 'a lovely film'])"
    listing = f"import sys; {asked}; print([name for name in {CORPORA} if name in sys.modules])"
    assert run(sys.executable, "-c", listing).splitlines()[-1] == "[]"


OF_NAMED_TUPLES = {"_asdict", "_replace"}
"""Public, although they begin with an underscore."""


def private_names(file: Path) -> set[str]:
    """Private names of other modules that a file imports or reads."""
    tree = ast.parse(file.read_text())
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            modules = [getattr(node, "module", None) or "", *(alias.name for alias in node.names)]
            found |= {part for name in modules for part in name.split(".") if part.startswith("_")}
        elif isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            inherited = isinstance(node.value, ast.Call) or ast.unparse(node.value) in ("self", "cls")
            found |= set() if inherited else {node.attr}
    return {name for name in found - own - OF_NAMED_TUPLES if not name.endswith("__")}


def test_every_imported_package_is_declared():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lists = [project["dependencies"], *project["optional-dependencies"].values()]
    declared = {Requirement(line).name.replace("-", "_") for lines in lists for line in lines}
    imported = set()
    for file in (ROOT / "src" / "transevolve").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                imported.add(str(node.module).split(".")[0])
    names = {"sklearn": "scikit_learn", "ruamel": "ruamel.yaml"}
    found = {names.get(name, name) for name in imported - sys.stdlib_module_names - {"transevolve"}}
    assert found <= declared, found - declared


def test_private_names_of_libraries_are_read_in_one_file():
    package = ROOT / "src" / "transevolve"
    reading = {str(file.relative_to(package)): private_names(file) for file in package.rglob("*.py")}
    assert {file for file, names in reading.items() if names} == {"core/private.py"}
