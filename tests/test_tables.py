"""Tables on the terminal and in Markdown: every name complete and nothing read as markup."""

import pytest

from transevolve.cli import main
from transevolve.core.markdown import code, code_block, escape
from transevolve.core.tables import markdown, show
from transevolve.evolution.backends import BACKENDS
from transevolve.models.settings import VARIANTS
from transevolve.peers import SYSTEMS

NAMES = ["[/x]", "[bold]", "[red]a[/red]", ":smile:", "a\\[b", "fullFF-1:literal@base"]


@pytest.mark.parametrize("width", [None, "80", "40"])
def test_names_are_plain_text(width, monkeypatch, capsys):
    monkeypatch.delenv("COLUMNS", raising=False)
    if width:
        monkeypatch.setenv("COLUMNS", width)
    show("[/title]", ["[name]", "what"], [[name, "a sentence of several words that may wrap"] for name in NAMES])
    shown = capsys.readouterr().out
    for name in ["[/title]", "[name]", *NAMES]:
        assert name in shown


@pytest.mark.parametrize("width", [30, 60, 80, 120])
def test_names_are_complete_at_any_width(width, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(width))
    columns = [f"column-{i}" for i in range(8)]
    show("Title", columns, [[f"name-{i}-of-{j}" for i in range(8)] for j in range(3)])
    shown = capsys.readouterr().out
    assert all(f"name-{i}-of-{j}" in shown for i in range(8) for j in range(3))
    assert all(column in shown for column in columns)
    assert max(map(len, shown.splitlines())) <= width


def test_without_a_terminal_a_row_is_one_line(monkeypatch, capsys):
    monkeypatch.delenv("COLUMNS", raising=False)
    long = "words " * 60 + "end"
    show("Title", ["a", "b"], [["first", long]])
    assert any("first" in line and long in line for line in capsys.readouterr().out.splitlines())


def test_systems_are_complete_at_80_columns(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["systems"]) == 0
    words = capsys.readouterr().out.split()
    for name in [*VARIANTS, *BACKENDS, *SYSTEMS]:
        assert name in words


def test_markdown_shows_text_as_it_is():
    page = markdown("a [b](c)", {"command": "echo `x`"}, ["name"], [["a|b"], ["<b>x</b>"], ["*y*"], ["batch_size"]], "")
    for line in (r"# a \[b\](c)", "- command: `` echo `x` ``", r"| a\|b |", r"| \<b\>x\</b\> |", r"| \*y\* |"):
        assert line in page.splitlines()
    assert "| batch_size |" in page


@pytest.mark.parametrize("text", ["x", "`x`", "a ``b`` c", "```"])
def test_code_is_longer_fenced_than_its_text(text):
    assert text in code(text)
    assert code_block(text, "yaml").splitlines()[0].count("`") > max(2, text.count("```") * 3)
    assert "\n" not in escape(f"{text}\n{text}")
