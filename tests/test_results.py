"""Published tables contain only what was recorded."""

import runpy
from pathlib import Path

RESULTS = Path(__file__).parents[1] / "results"


def test_the_tables_page_is_made_from_records():
    rendered = runpy.run_path(str(RESULTS / "tables.py"))["rendered"]
    assert rendered() == (RESULTS / "tables.md").read_text(encoding="utf-8"), "run `python results/tables.py`"


def test_the_readme_has_the_recorded_accuracy_of_ag_news():
    score = runpy.run_path(str(RESULTS / "tables.py"))["score"]
    cells = f"| {score('agnews', 'fullFF-1')} | {score('agnews', 'transformer')} |"
    assert cells in (RESULTS.parent / "README.md").read_text(encoding="utf-8")
