"""Published tables contain only what was recorded."""

import runpy
from pathlib import Path

RESULTS = Path(__file__).parents[1] / "results"


def test_the_tables_page_is_made_from_records():
    rendered = runpy.run_path(str(RESULTS / "tables.py"))["rendered"]
    assert rendered() == (RESULTS / "tables.md").read_text(encoding="utf-8"), "run `python results/tables.py`"
