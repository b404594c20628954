"""Hugging Face's own tests of models and generation, on every public class.

Their test files do not come with the installed package: `TRANSEVOLVE_HF_TESTS` names a checkout of
https://github.com/huggingface/transformers, best at the installed version.

    TRANSEVOLVE_HF_TESTS=/path/to/transformers python -m pytest -m slow tests/test_hf_suites.py
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = os.environ.get("TRANSEVOLVE_HF_TESTS", "")
SUITES = Path(__file__).parent / "suites"
CASES = ["EncoderTest", "RandomEncoderTest", "CausalTest", "TranslatorTest", "PeerTest"]


@pytest.mark.slow
@pytest.mark.skipif(not CHECKOUT, reason="TRANSEVOLVE_HF_TESTS names no checkout of huggingface/transformers")
@pytest.mark.parametrize("case", CASES)
def test_hugging_face_suite(case, tmp_path):
    package = Path(__import__("transevolve").__file__).parents[1]
    path = os.pathsep.join([CHECKOUT, str(package), str(SUITES)])
    options = ["-q", "-W", "ignore", "--tb=short", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", CHECKOUT]
    command = [sys.executable, "-m", "pytest", *options, f"{SUITES / 'huggingface.py'}::{case}"]
    environment = {**os.environ, "PYTHONPATH": path, "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    print(done.stdout[-200:])
    assert done.returncode == 0, done.stdout[-8000:]
