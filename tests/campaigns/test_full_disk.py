"""A disk that fills up at any point of a training: one clear line, and the same command with room ends as if nothing
had happened. `TRANSEVOLVE_LEVELS` is the number of sizes tried, 20 by default.
"""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from campaigns.attempts import Ended, attempt, outcome
from training_support import training_of, write_csv

pytestmark = pytest.mark.slow
LEVELS = int(os.environ.get("TRANSEVOLVE_LEVELS", "20"))
SETTINGS = ["--training.save_steps=2", "--training.epochs=2"]


@pytest.fixture(scope="module")
def csv(tmp_path_factory) -> Path:
    return write_csv(tmp_path_factory.mktemp("data") / "reviews.csv", rows=60)


@pytest.fixture(scope="module")
def undisturbed(csv, tmp_path_factory) -> Path:
    run = tmp_path_factory.mktemp("undisturbed") / "run"
    assert attempt(["train", *training_of(csv, run, *SETTINGS)]).code == 0
    return run


@contextmanager
def disk(folder: Path, size: int) -> Iterator[None]:
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("this user may not mount a small disk")
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def require_clear(ended: Ended) -> None:
    errors = [line for line in ended.output.splitlines() if "rror" in line or "Traceback" in line]
    assert ended.code == 2, ended.output
    assert len(errors) == 1, ended.output
    assert "no space left on the disk" in errors[0]


def levels(largest: int) -> list[int]:
    return [round(64 * (largest / 64) ** (number / max(LEVELS - 1, 1))) for number in range(LEVELS)]


def test_files_that_may_not_grow(csv, undisturbed, tmp_path, record_property):
    failed = 0
    largest = max(path.stat().st_size for path in undisturbed.rglob("*") if path.is_file())
    for number, limit in enumerate(levels(largest)):
        run = tmp_path / f"run{number}"
        ended = attempt(["train", *training_of(csv, run, *SETTINGS)], limit=limit)
        if ended.code != 0:
            require_clear(ended)
            failed += 1
        assert attempt(["train", *training_of(csv, run, *SETTINGS)]).code == 0
        assert outcome(run) == outcome(undisturbed), limit
    record_property("hardening", f"full disk, {LEVELS} limits on files: {failed} stopped, all resumed")


def test_disks_that_are_full(csv, undisturbed, tmp_path, record_property):
    failed = 0
    used = sum(path.stat().st_size + 4096 for path in undisturbed.rglob("*"))
    for number, size in enumerate(levels(used)):
        folder = tmp_path / f"disk{number}"
        with disk(folder, max(size, 4096)):
            ended = attempt(["train", *training_of(csv, folder / "run", *SETTINGS)])
            if ended.code != 0:
                require_clear(ended)
                failed += 1
            subprocess.run(["mount", "-o", "remount,size=100m", str(folder)], check=True)
            assert attempt(["train", *training_of(csv, folder / "run", *SETTINGS)]).code == 0
            assert outcome(folder / "run") == outcome(undisturbed), size
    record_property("hardening", f"full disk, {LEVELS} sizes of disks: {failed} stopped, all resumed")
