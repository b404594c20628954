"""Converts a report of Hugging Face's tests to the Markdown tables of docs/huggingface.md.

    python tests/suites/summary.py REPORT.xml

The report is pytest's, written with --junitxml.
"""

import re
import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree


def outcome(case: ElementTree.Element) -> str:
    for found in ("failure", "error"):
        if case.find(found) is not None:
            return "failed"
    return "passed" if case.find("skipped") is None else "skipped"


# Patterns of the reasons in Hugging Face's tests; the first one that matches is used.
GROUPS = {
    "hardware or a package that the machine does not have, or Hugging Face's own slow tests": r"requires|is slow",
    "attention that Hugging Face computes (SDPA, Flash Attention, its masks): backends take its place": (
        r"(?i)sdpa|attention mask|sliding window|grouped_mm"
    ),
    "attention matrices, which not every system has": r"attentions",
    "rotary or learned positions: they are computed": r"RoPE|base_model_class|position",
    "a static cache, or a graph that holds the cache: it grows in Python": r"static cache|graph breaks",
    "a checkpoint of another model is refused, not completed with new weights": r"is refused",
    "the cache has one past per block, not one per layer": r"one past per block",
    "several models in one, tensor parallelism, weights kept in float32, and other parts that no model here has": "",
}


def reason(case: ElementTree.Element) -> str:
    skipped = case.find("skipped")
    assert skipped is not None
    return next(group for group, found in GROUPS.items() if re.search(found, skipped.get("message") or ""))


def table(columns: list[str], rows: list[list[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)


def main(path: str) -> None:
    cases = list(ElementTree.parse(Path(path)).iter("testcase"))
    suites = list(dict.fromkeys(case.get("classname", "").rpartition(".")[2] for case in cases))
    counts = Counter((case.get("classname", "").rpartition(".")[2], outcome(case)) for case in cases)
    kinds = ["passed", "skipped", "failed"]
    print(table(["suite", *kinds], [[f"`{suite}`", *(str(counts[suite, kind]) for kind in kinds)] for suite in suites]))
    print()
    reasons = Counter(reason(case) for case in cases if outcome(case) == "skipped")
    print(table(["tests skipped", "reason"], [[str(count), text] for text, count in reasons.most_common()]))


if __name__ == "__main__":
    main(sys.argv[1])
