"""The documentation builds without a warning, its commands and snippets run, and the files it names exist."""

import re
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import jaxtyping
import pytest
import torch
from mkdocs.commands.build import build
from mkdocs.config import load_config

from browser import WIDTHS, dump, is_dark, needs_chromium, open_page
from docs_support import ROOT, blocks, follow, recipe_of, run, train_case, write_files
from support import KINDS, make_case
from transevolve.cli import COMMANDS
from transevolve.config.files import dotted
from transevolve.config.recipe import Recipe
from transevolve.data import TASKS
from transevolve.evolution.backends import BACKENDS
from transevolve.kinds import KINDS as TASK_KINDS
from transevolve.peers import SYSTEMS
from transevolve.training import sweep

DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))
TEXTS = {page.name: page.read_text() for page in PAGES}


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """A folder with the files that pages name, and the two runs that `index.md` trains."""
    folder = write_files(tmp_path_factory.mktemp("user"))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(jaxtyping.config, "jaxtyping_disable", True)
        run(["train", "--data.path=my.csv", "--data.text=comment", "--data.label=verdict", "--output=run"])
        run(["train", "--data.source=a.en", "--data.target=a.de", "--output=translator"])
    return folder


@pytest.fixture
def registries():
    """Removes entries that a page adds to a registry."""
    before = [(registry, dict(registry)) for registry in (BACKENDS, SYSTEMS, TASKS, TASK_KINDS)]
    yield
    for registry, known in before:
        registry.clear()
        registry.update(known)


@pytest.mark.usefixtures("unchecked", "registries")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_in_the_docs_work(page, trained, tmp_path, monkeypatch):
    folder = tmp_path / "user"
    shutil.copytree(trained, folder)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sweep, "train_case", train_case)
    follow(page)


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The site, built strictly: a warning is an error."""
    folder = tmp_path_factory.mktemp("site")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        build(load_config(str(ROOT / "mkdocs.yml"), strict=True, site_dir=str(folder)))
    return folder


@pytest.mark.slow
@needs_chromium
def test_the_search_works_from_the_disk(site):
    found = dump(site / "search.html", "?q=label_separator")
    results = re.search(r'<div[^>]*id="mkdocs-search-results"[^>]*>(.*?)</div>', found, re.DOTALL)
    assert results is not None
    assert re.search(r'<a href="\./kinds\.html[^"]*">', results[1])
    assert "No results found" in dump(site / "search.html", "?q=xyzzy")
    for similar in ("regresion", "regress"):
        assert "kinds.html#regression-numbers" in dump(site / "search.html", f"?q={similar}")


@pytest.mark.slow
@needs_chromium
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("page", ["kinds.html", "reference/recipe.html"])
def test_pages_fit_the_window_light_and_dark(site, page, width, dark):
    seen = open_page(site / page, width, dark)
    assert not seen.errors
    assert seen.overflow <= 0
    assert not seen.broken
    assert is_dark(seen) == dark


def test_the_site_builds_strictly_and_needs_no_network(site):
    assert "hooks.py" not in {path.name for path in site.rglob("*")}
    for path in site.rglob("*.html"):
        content = path.read_text()
        assert not re.findall(r'<(?:script|img|iframe)[^>]+src="(?:https?:)?//|<link[^>]+href="(?:https?:)?//', content)
        assert "<!-- generated" not in content, path
    for path in site.rglob("*.css"):
        assert not re.findall(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//", path.read_text()), path
    reference = (site / "reference" / "cli.html").read_text()
    assert all(f'id="{name.replace(" ", "-")}"' in reference for name in COMMANDS)
    keys = (site / "reference" / "recipe.html").read_text()
    assert all(f"<code>{key}</code>" in keys for key in dotted(Recipe()) if "." in key)
    assert "EvolvedEncoder" in (site / "reference" / "api.html").read_text()


def test_the_reference_has_the_tasks_of_every_kind():
    """In a process of its own: here, other tests have registered the kinds."""
    command = [sys.executable, "-c", "import hooks; print(hooks.tasks(), hooks.recipe())"]
    made = subprocess.run(command, cwd=ROOT / "docs", capture_output=True, text=True, check=True).stdout
    assert all(f"| `{task}` |" in made for kind in TASK_KINDS.values() for task in kind.tasks)
    assert re.search(r"`data.label_separator` .* \| multilabel \|", made)


@pytest.mark.parametrize("name", TEXTS)
def test_paths_and_tests_that_a_page_names_are_there(name):
    for path, test in re.findall(
        r"`((?:src|tests|results|recipes|examples|docs)/[\w./-]*\w)(?:::(\w+))?`", TEXTS[name]
    ):
        assert (ROOT / path).exists(), path
        assert not test or f"\ndef {test}(" in (ROOT / path).read_text(), test
    if name == "how-it-works.md":
        for path, functions in re.findall(r"`([\w/]+\.py)`: ([^|\n]+)", TEXTS[name]):
            content = (ROOT / "src" / "transevolve" / "evolution" / path).read_text()
            for function in re.findall(r"`(?:\w+\.)?(\w+)`", functions):
                assert re.search(rf"^ *(?:def|class) {function}\b", content, re.MULTILINE), function


def test_errors_that_a_page_explains_are_reported():
    source = "".join(path.read_text() for path in (ROOT / "src" / "transevolve").rglob("*.py"))
    rows = TEXTS["data.md"].split("## Errors you may meet")[1].splitlines()
    reported = [
        message for row in rows if row.startswith("| `") for message in re.findall(r"`([^`]+)`", row.split("|")[1])
    ]
    assert len(reported) > 10
    for message in reported:
        assert all(part in source for part in message.split(" ... ")), message


def test_make_targets_exist():
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for text in TEXTS.values():
        assert set(re.findall(r"^make (\w+)|`make (\w+)`", text, re.MULTILINE)) <= {
            pair for t in targets for pair in ((t, ""), ("", t))
        }


def test_commands_are_fenced_not_indented():
    for name, text in TEXTS.items():
        prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
        assert not re.findall(r"^ {4}(?:transevolve|torchrun) ", prose, re.MULTILINE), name


def test_commands_for_several_machines_are_recipes():
    """Commands that a page only shows are parsed, so a wrong key in them is found."""
    shown = [words for page in PAGES for block in blocks(page) for words in block.lines("torchrun")]
    assert len(shown) >= 4
    with pytest.raises(Exception, match=r"(?i)unknown option"):
        recipe_of(["paper/wmt14-en-de", "--training.fsdpp", "true"])


@pytest.mark.usefixtures("registries")
@pytest.mark.parametrize("kind", KINDS)
def test_the_example_of_a_new_backend_is_exact(kind):
    example = next(b.content for b in blocks(DOCS / "contributing.md") if 'BACKENDS["chunked"]' in b.content)
    assert len(example.splitlines()) < 60
    names: dict = {}
    exec(compile(example.replace("ROWS = 128", "ROWS = 3"), "contributing.md", "exec"), names)
    case = make_case(kind, dtype=torch.float64)
    ours, literal = case.run("chunked"), case.run("literal")
    torch.testing.assert_close(ours, literal)
    for mine, theirs in zip(case.gradients(ours), case.gradients(literal), strict=True):
        torch.testing.assert_close(mine, theirs)


def test_the_example_of_a_new_task_is_short():
    example = next(b.content for b in blocks(DOCS / "contributing.md") if 'TASKS["palindromes"]' in b.content)
    assert len(example.splitlines()) < 60
