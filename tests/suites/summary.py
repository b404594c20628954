"""What a run of Hugging Face's tests found, as the Markdown table of docs/huggingface.md.

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


def reason(case: ElementTree.Element) -> str:
    skipped = case.find("skipped")
    assert skipped is not None
    text = re.sub(r"\s+", " ", skipped.get("message") or "no reason").removeprefix("Skipped: ").rstrip(".")
    return re.sub(r"\b(transevolve\.\w+|(TransEvolve|Peer)\w+)\b", "the model", text)


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
