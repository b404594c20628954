"""BLEU and chrF: known values, signatures, and when two systems differ."""

import os

import pytest
import sacrebleu

from transevolve.core.errors import UserError
from transevolve.metrics.bleu import compare, score

REFERENCES = [
    "The cat sat on the mat, didn't it?",
    "There is a dog in the garden today.",
    "Zwei Männer stehen am Herd und bereiten Essen zu.",
    "It cost 3.50 euros (about four dollars).",
]
CLOSE = [
    "The cat sat on a mat, didn't it?",
    "There is a dog in the garden.",
    "Zwei Männer stehen am Herd und kochen Essen.",
    "It cost 3.50 euros, about four dollars.",
]
FAR = ["A cat.", "The dog today in garden is there.", "Zwei Frauen sitzen.", "3,50 euros four dollars."]


def test_identical_texts_score_100():
    result = score(REFERENCES, REFERENCES)
    assert result.bleu == pytest.approx(100)
    assert result.chrf == pytest.approx(100)
    assert (result.brevity_penalty, result.length_ratio, result.lines) == (1, 1, 4)
    assert result.precisions == pytest.approx((100, 100, 100, 100))


def test_disjoint_texts_score_0():
    result = score(["qqq"] * 4, REFERENCES)
    assert (result.bleu, result.chrf) == (0, 0)


def test_a_value_worked_out_by_hand():
    """Five of six words are in the reference, three of five pairs, two of four triples, one of three quadruples."""
    result = score(["the cat sat on a mat"], ["the cat sat on the mat"])
    assert result.precisions == pytest.approx([100 * 5 / 6, 100 * 3 / 5, 100 * 2 / 4, 100 * 1 / 3])
    assert result.bleu == pytest.approx(100 * (5 / 6 * 3 / 5 * 2 / 4 * 1 / 3) ** 0.25)


def test_short_translations_are_penalized():
    result = score(["the cat sat on"], ["the cat sat on the mat"])
    assert result.brevity_penalty == pytest.approx(2.718281828 ** (1 - 6 / 4))
    assert result.bleu == pytest.approx(100 * result.brevity_penalty)
    assert result.length_ratio == pytest.approx(4 / 6)


def test_the_score_is_sacrebleus():
    result = score(CLOSE, REFERENCES)
    assert result.bleu == sacrebleu.corpus_bleu(CLOSE, [REFERENCES]).score
    assert result.chrf == sacrebleu.corpus_chrf(CLOSE, [REFERENCES]).score
    assert result.bleu_lowercase == sacrebleu.corpus_bleu(CLOSE, [REFERENCES], lowercase=True).score
    version = sacrebleu.__version__
    assert result.signature_bleu == f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:{version}"
    assert result.signature_chrf == f"nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:{version}"
    assert result.as_dict()["bleu"] == result.bleu


def test_case_counts():
    assert score([text.upper() for text in REFERENCES], REFERENCES).bleu < 50


def test_a_clear_difference_is_significant():
    result = compare(CLOSE * 10, FAR * 10, REFERENCES * 10, samples=200)
    assert result.bleu.a == pytest.approx(score(CLOSE, REFERENCES).bleu)
    assert result.chrf.b == pytest.approx(score(FAR, REFERENCES).chrf)
    assert result.bleu.a > result.bleu.b
    assert result.bleu.p_value == result.chrf.p_value == pytest.approx(1 / 201)
    assert 0 < result.bleu.margin_a < 20
    assert 0 < result.chrf.margin_b < 20
    assert "bs:200|seed:12345" in result.bleu.signature
    assert result.as_dict()["bleu"]["p_value"] == result.bleu.p_value


def test_no_difference_is_not_significant():
    result = compare(CLOSE, CLOSE, REFERENCES, samples=50)
    assert result.bleu.p_value == result.chrf.p_value == 1
    assert result.bleu.margin_a == result.bleu.margin_b


def test_a_small_difference_is_not_significant():
    other = [*CLOSE[:3], REFERENCES[3]]
    assert compare(CLOSE * 5, [*CLOSE * 4, *other], REFERENCES * 5, samples=200).bleu.p_value > 0.05


@pytest.mark.parametrize("outside", [None, "77"])
def test_a_comparison_depends_only_on_its_seed(outside, monkeypatch):
    monkeypatch.delenv("SACREBLEU_SEED", raising=False)
    first = compare(CLOSE, FAR, REFERENCES, samples=30, seed=1)
    if outside is not None:
        monkeypatch.setenv("SACREBLEU_SEED", outside)
    assert compare(CLOSE, FAR, REFERENCES, samples=30, seed=1) == first
    assert compare(CLOSE, FAR, REFERENCES, samples=30, seed=2) != first
    assert os.environ.get("SACREBLEU_SEED") == outside


def test_as_many_translations_as_references_are_needed():
    with pytest.raises(UserError, match="there are 3 translations for 4 references"):
        score(CLOSE[:3], REFERENCES)
    with pytest.raises(UserError, match="there are 5 translations b for 4 references"):
        compare(CLOSE, [*FAR, ""], REFERENCES)
    with pytest.raises(UserError, match="no references"):
        score([], [])


@pytest.mark.parametrize("wrong", [{"samples": 0}, {"seed": 0}])
def test_a_comparison_needs_samples_and_a_seed(wrong):
    with pytest.raises(UserError, match="samples and seed must be at least 1"):
        compare(CLOSE, FAR, REFERENCES, **wrong)
