"""Commands that only run a model do not import modules for training and compilation, and give the same output."""

import subprocess
import sys
from pathlib import Path

import pytest

RUNS = Path(__file__).parent / "version_one"
LEFT_OUT = {"accelerate", "datasets", "matplotlib", "pandas", "scipy", "sklearn", "sympy", "torch.distributed.tensor"}
MOST_MODULES = 2_200  # transformers.modeling_utils alone imports more than 3,000
PREDICT = ["predict", str(RUNS / "classifier"), "a good film"]
TRANSLATE = ["translate", str(RUNS / "translator"), "one two"]
SCRIPT = """
import sys
from transevolve.cli import main
code = main({words})
{then}
print(code, len(sys.modules), sorted({left_out} & set(sys.modules)), sep="|")
"""


def answer(words: list[str], own_process: bool, then: str = "") -> tuple[str, str, int, str]:
    """The output, exit code, number of modules, and those of `LEFT_OUT` among them."""
    script = SCRIPT.format(words="" if own_process else "sys.argv[1:]", then=then, left_out=LEFT_OUT)
    command = [sys.executable, "-c", script, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=240)
    *output, last = done.stdout.splitlines()
    code, modules, found = last.split("|")
    return "\n".join(output), code, int(modules), found


@pytest.mark.parametrize("words", [PREDICT, TRANSLATE], ids=lambda words: words[0])
def test_a_process_of_its_own_imports_less_and_answers_the_same(words):
    output, code, modules, found = answer(words, own_process=True)
    assert (code, found) == ("0", "[]")
    assert modules < MOST_MODULES
    called, _, more, _ = answer(words, own_process=False)
    assert output == called != ""
    assert more > modules + 500


def test_the_compiler_is_loaded_when_it_is_used():
    then = "import torch; print(torch.compile(lambda x: 2 * x, backend='eager')(torch.ones(1)).item())"
    output, code, _, _ = answer(PREDICT, own_process=True, then=then)
    assert code == "0"
    assert output.splitlines()[-1] == "2.0"
