"""BLEU and chrF with sacreBLEU, on untokenized text, with their signatures."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest

from ..core.environment import variable
from ..core.errors import UserError

SEED = 12345


@dataclass(frozen=True)
class TranslationScore:
    """A corpus score.

    Args:
        bleu: Case-sensitive BLEU with the tokenization 13a, from 0 to 100.
        bleu_lowercase: The same of lower-cased text.
        chrf: chrF2, from 0 to 100.
        signature_bleu: The settings of BLEU, in sacreBLEU's notation.
        signature_chrf: The settings of chrF2.
        brevity_penalty: The factor by which BLEU penalizes short translations.
        length_ratio: Words of the hypotheses per word of the references.
        precisions: The precisions of 1-grams to 4-grams, in percent.
        lines: The number of scored translations.
    """

    bleu: float
    bleu_lowercase: float
    chrf: float
    signature_bleu: str
    signature_chrf: str
    brevity_penalty: float
    length_ratio: float
    precisions: tuple[float, ...]
    lines: int

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Difference:
    """One metric of two systems on the same lines.

    Args:
        a: Score of the first system.
        b: Score of the second.
        margin_a: Half the width of the 95 % confidence interval around the first.
        margin_b: The same for the second.
        p_value: The probability of such a difference if the systems are equally good.
        signature: The settings of the metric and of the test, in sacreBLEU's notation.
    """

    a: float
    b: float
    margin_a: float
    margin_b: float
    p_value: float
    signature: str


@dataclass(frozen=True)
class Comparison:
    bleu: Difference
    chrf: Difference

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def score(hypotheses: Sequence[str], references: Sequence[str]) -> TranslationScore:
    """Score translations, each against the reference with the same index."""
    _require_same_lines(references, {"translations": hypotheses})
    bleu, chrf = BLEU(tokenize="13a"), CHRF()
    by_words = bleu.corpus_score(hypotheses, [references])
    by_letters = chrf.corpus_score(hypotheses, [references])
    return TranslationScore(
        bleu=by_words.score,
        bleu_lowercase=BLEU(tokenize="13a", lowercase=True).corpus_score(hypotheses, [references]).score,
        chrf=by_letters.score,
        signature_bleu=str(bleu.get_signature()),
        signature_chrf=str(chrf.get_signature()),
        brevity_penalty=by_words.bp,
        length_ratio=by_words.ratio,
        precisions=tuple(by_words.precisions),
        lines=len(references),
    )


def compare(
    hypotheses_a: Sequence[str],
    hypotheses_b: Sequence[str],
    references: Sequence[str],
    samples: int = 1000,
    seed: int = SEED,
) -> Comparison:
    """Paired bootstrap: both systems are scored on the same lines, drawn with replacement `samples` times."""
    _require_same_lines(references, {"translations a": hypotheses_a, "translations b": hypotheses_b})
    if samples < 1 or seed < 1:
        raise UserError(f"samples and seed must be at least 1, not {samples} and {seed}")
    # sacreBLEU reads its seed from the environment only; 0 would mean unseeded.
    with variable("SACREBLEU_SEED", str(seed)):
        test = PairedTest(
            [("a", hypotheses_a), ("b", hypotheses_b)],
            {"BLEU": BLEU(tokenize="13a"), "chrF2": CHRF()},
            [references],
            test_type="bs",
            n_samples=samples,
        )
        signatures, results = test()
    return Comparison(*(_difference(results[name], signatures[name]) for name in ("BLEU", "chrF2")))


def _difference(results: Sequence[Any], signature: Any) -> Difference:
    """The p-value is 1 without a difference; sacreBLEU would report the smallest p-value."""
    a, b = results
    return Difference(
        a=float(a.score),
        b=float(b.score),
        margin_a=float(a.ci),
        margin_b=float(b.ci),
        p_value=float(b.p_value) if a.score != b.score else 1.0,
        signature=str(signature),
    )


def _require_same_lines(references: Sequence[str], systems: Mapping[str, Sequence[str]]) -> None:
    for name, hypotheses in systems.items():
        if len(hypotheses) != len(references):
            raise UserError(
                f"there are {len(hypotheses):,} {name} for {len(references):,} references;"
                " give one for each, in the same order"
            )
    if not len(references):
        raise UserError("there are no references to score against; give at least one line")
