"""Warnings about truncated texts and unknown tokens, shown before training."""

from .data import DataReport, SplitFacts

LOST, UNKNOWN = 0.02, 0.01


def text_notes(report: DataReport) -> list[str]:
    facts = [(split, found) for split, found in report.splits.items() if isinstance(found, SplitFacts)]
    notes = []
    if not facts:
        return notes
    split, worst = max(facts, key=lambda pair: pair[1].lost)
    if worst.lost > LOST:
        remedy = "increase --data.max_length"
        if isinstance(report.columns.get("text"), str):
            remedy += ", or add --data.long window to read whole texts"
        notes.append(
            f"warning: {100 * worst.lost:.1f} % of the tokens of {split} are cut off, in {worst.truncated:,} of"
            f" {worst.rows:,} texts longer than {report.max_length:,} tokens; {remedy}"
        )
    split, worst = max(facts, key=lambda pair: pair[1].unknown / max(pair[1].tokens, 1))
    share = worst.unknown / max(worst.tokens, 1)
    if share > UNKNOWN:
        notes.append(
            f"warning: {100 * share:.1f} % of the tokens of {split} are unknown to the tokenizer;"
            " --data.tokenizer bpe, unigram or byte has no unknown tokens"
        )
    return notes
