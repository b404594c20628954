"""Atomic writes: all or nothing, and not redirected by planted files."""

import errno
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from transevolve.core.errors import UserError
from transevolve.core.figures import new_figure, save
from transevolve.core.files import (
    append_line,
    atomic_file,
    copy_atomically,
    remove,
    remove_leftovers,
    report_full_disk,
    staging_folder,
    staging_path,
    temporary,
    write_atomically,
)


def picture(path: Path) -> None:
    save(new_figure(1, 1), path)


def copy(path: Path) -> None:
    source = path.parent / "source"
    source.write_bytes(b"new")
    copy_atomically(source, path)


WAYS = {
    "text": lambda path: write_atomically(path, "new"),
    "bytes": lambda path: write_atomically(path, b"new"),
    "picture": picture,
    "copy": copy,
}


@pytest.mark.parametrize("write", WAYS.values(), ids=WAYS)
def test_a_link_is_replaced_and_never_followed(tmp_path, write):
    precious = tmp_path / "precious"
    precious.write_text("precious")
    folder = tmp_path / "untrusted"
    folder.mkdir()
    for name in ("page.png", ".page.png.part"):
        (folder / name).symlink_to(precious)
    write(folder / "page.png")
    assert precious.read_text() == "precious"
    assert not (folder / "page.png").is_symlink()
    assert (folder / "page.png").stat().st_size > 0
    assert not list(folder.glob(".transevolve-*"))


def test_a_failed_write_keeps_the_old_file(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError), atomic_file(path) as file:
        file.write(b"x" * (1 // 0))
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_permissions_follow_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        write_atomically(tmp_path / "file", "x")
    finally:
        os.umask(before)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o640


def test_long_names_fit(tmp_path):
    write_atomically(tmp_path / ("n" * 255), "x")


def test_appending_follows_no_link(tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("precious")
    (tmp_path / "log").symlink_to(precious)
    with pytest.raises(OSError):  # noqa: PT011
        append_line(tmp_path / "log", "x")
    assert precious.read_text() == "precious"


def test_a_staging_folder_replaces_what_a_killed_process_left(tmp_path):
    with staging_folder(tmp_path / "final") as first:
        (first / "half").write_text("x")
        first.rename(tmp_path / "moved")
    (tmp_path / "moved").rename(first)
    with staging_folder(tmp_path / "final") as second:
        assert not list(second.iterdir())
        second.rename(tmp_path / "final")
    assert [p.name for p in tmp_path.iterdir()] == ["final"]


def test_only_leftovers_are_removed(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "mine").write_text("x")
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in (".lock", "notes.tmp", ".transevolve.lock"):
        (folder / name).write_text("x")
    temporary(folder).write_text("x")
    temporary(folder).symlink_to(outside)
    remove_leftovers(folder)
    assert sorted(p.name for p in folder.iterdir()) == [".lock", ".transevolve.lock", "notes.tmp"]
    assert (outside / "mine").exists()


def test_a_link_to_a_folder_is_removed_and_not_the_folder(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "mine").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    remove(tmp_path / "link")
    assert (tmp_path / "folder" / "mine").exists()
    assert not (tmp_path / "link").exists()


FULL = {
    "system": OSError(errno.ENOSPC, "No space left on device"),
    "quota": OSError(errno.EDQUOT, "Disk quota exceeded"),
    "torch": RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 64 vs 0"),
    "rust": Exception("No space left on device (os error 28)"),
}


@pytest.mark.parametrize("error", FULL.values(), ids=FULL)
def test_a_full_disk_is_one_line(tmp_path, error):
    with pytest.raises(UserError, match=r"could not write .*file: no space left on the disk \([\d,]+ MB free\)"):  # noqa: SIM117
        with report_full_disk(tmp_path / "file"):
            raise error


def test_a_full_disk_names_what_could_not_be_written(tmp_path):
    """The message names neither the source of a copy nor a temporary folder."""
    copied = OSError(errno.ENOSPC, "No space left on device", "/source", None, str(tmp_path / "copy"))
    with pytest.raises(UserError, match=r"could not write .*/copy: "), report_full_disk(tmp_path / "file"):
        raise copied
    staged = staging_path(tmp_path / "run") / "model.safetensors"
    with pytest.raises(UserError, match=rf"could not write {tmp_path}: "), report_full_disk(staged):
        raise FULL["torch"]


def test_other_errors_pass(tmp_path):
    with pytest.raises(RuntimeError, match="shapes"), report_full_disk(tmp_path / "file"):
        raise RuntimeError("shapes do not match")


def test_a_file_too_large_for_the_disk_leaves_the_old_one(tmp_path):
    (tmp_path / "file").write_text("old")
    program = (
        "from pathlib import Path; from transevolve.core.files import write_atomically;"
        f"write_atomically(Path({str(tmp_path / 'file')!r}), 'x' * 100_000)"
    )

    def small_files():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    done = subprocess.run(
        [sys.executable, "-c", program], preexec_fn=small_files, capture_output=True, text=True, check=False
    )
    assert "UserError: could not write" in done.stderr
    assert (tmp_path / "file").read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
