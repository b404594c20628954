"""Malformed standard input, and the expected answers line by line."""

import gzip
import json
import random
from dataclasses import dataclass

from hardening.program import Answer, Unacceptable

PIECES = [
    "one", "two", "great film", "awful", "", " ", "\t", "  spaced  ", "\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\r",
    "\x1c", "\x1d", "\x1e", "\x00", "\x07", "\x1b[31m", "\x7f", "\ufeff", "\u200b", "\u202e", "é", "e\u0301", "ﬁ", "İ",
    "日本語", "👩‍👩‍👧", "🇩🇪", "\U0010ffff", "\ufffe", "[CLS]", "[PAD]", "[UNK]", "[SEP]", "</s>", "<s>", "<pad>",
    '"', "'", "\\", "\\n", "{}", '{"text": 1}', "a,b", "--json", "--", "-h", "null", "nan", "%s", "$x", "\x1f\x8b",
]  # fmt: skip
BAD_BYTES = [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xc0\xaf", b"\xf5\x80\x80\x80", b"\x80", b"\xfe\xff", b"caf\xe9"]
ENDS = [b"\n", b"\n", b"\n", b"\r\n", b"\n\n", b"\r", b"\r\r\n"]


@dataclass(frozen=True)
class Stream:
    content: bytes
    flags: list[str]

    @property
    def texts(self) -> list[str] | None:
        """The texts according to the documentation; None if they are an error."""
        try:
            content = gzip.decompress(self.content) if self.content[:2] == b"\x1f\x8b" else self.content
            parts = content.removeprefix(b"\xef\xbb\xbf").split(b"\n")
            lines = [part.decode() for part in parts]
        except (ValueError, OSError, EOFError, gzip.zlib.error):
            return None
        return [line.removesuffix("\r") for line in (lines if lines[-1] else lines[:-1])]


def draw_content(draw: random.Random) -> bytes:
    kind = draw.random()
    if kind < 0.06:
        return draw.randbytes(draw.randint(0, 300))
    lines = [_line(draw) for _ in range(draw.choice([0, 1, 1, 2, 3, 5, 8]))]
    content = b"".join(line + draw.choice(ENDS) for line in lines)
    if draw.random() < 0.4:
        content = content.removesuffix(b"\n")
    if draw.random() < 0.1:
        content = b"\xef\xbb\xbf" + content
    if kind < 0.12:
        content = gzip.compress(content)
        if draw.random() < 0.5:
            content = damaged(draw, content)
    elif kind < 0.2:
        content = damaged(draw, content)
    return content


def damaged(draw: random.Random, content: bytes) -> bytes:
    """Changes, inserts or removes a byte, or truncates the end."""
    if not content:
        return content
    place = draw.randrange(len(content))
    other = bytes([draw.randrange(256)])
    return draw.choice(
        [
            content[:place] + other + content[place + 1 :],
            content[:place] + other + content[place:],
            content[:place] + content[place + 1 :],
            content[:place],
        ]
    )


def _line(draw: random.Random) -> bytes:
    kind = draw.random()
    if kind < 0.03:
        return draw.choice([b"x", "é ".encode(), b"one two "]) * draw.choice([1000, 20_000])
    if kind < 0.08:
        return b"good " + draw.choice(BAD_BYTES) + b" bad"
    return "".join(draw.choice(PIECES) for _ in range(draw.choice([0, 1, 1, 2, 4]))).encode()


def draw_predict(draw: random.Random) -> Stream:
    flags = ["--json"] if draw.random() < 0.6 else []
    if draw.random() < 0.3:
        flags += ["--batch_tokens", draw.choice(["1", "33", "100000"])]
    return Stream(draw_content(draw), flags)


def draw_translate(draw: random.Random) -> Stream:
    beam = draw.choice([1, 1, 2])
    flags = ["--beam", str(beam), "--extra_length", draw.choice(["1", "3"])]
    if draw.random() < 0.3:
        flags += ["--n_best", str(beam)]
    if draw.random() < 0.4:
        flags.append("--json")
    return Stream(draw_content(draw), flags)


def check_predictions(lines: list[str], texts: list[str], labels: set[str], as_json: bool) -> None:
    """One line per text, in order, with an existing label and valid probabilities."""
    if len(lines) != len(texts):
        raise Unacceptable(f"{len(lines)} lines for {len(texts)} texts")
    for line, text in zip(lines, texts, strict=True):
        if not as_json:
            label, probability = line.split("\t")
            probabilities = {label: float(probability)}
            correct = 1 / len(labels) - 1e-3 <= float(probability) <= 1
        else:
            found = json.loads(line)
            if found["text"] != text:
                raise Unacceptable(f"the answer to {found['text']!r} where {text!r} was asked")
            label, probabilities = found["label"], found["probabilities"]
            best = max(probabilities, key=probabilities.__getitem__)
            correct = best == label and found["probability"] == probabilities[best]
            correct = correct and abs(sum(probabilities.values()) - 1) < 1e-5
        if not correct or not set(probabilities) <= labels:
            raise Unacceptable(f"no prediction: {line!r}")


def check_translations(lines: list[str], texts: list[str], flags: list[str]) -> None:
    """The requested number of lines per sentence, in order; an empty line for an empty sentence."""
    each = int(flags[flags.index("--n_best") + 1]) if "--n_best" in flags else 1
    if "--json" in flags:
        found = [json.loads(line) for line in lines]
        if [row["source"] for row in found] != texts:
            raise Unacceptable(f"the answers are not to {texts!r}: {lines!r}")
        written = [[row["text"] for row in sentence["translations"]] for sentence in found]
    else:
        if len(lines) != each * len(texts):
            raise Unacceptable(f"{len(lines)} lines for {each} translations of {len(texts)} sentences")
        written = [lines[each * i : each * (i + 1)] for i in range(len(texts))]
    for text, translations in zip(texts, written, strict=True):
        if not 1 <= len(translations) <= each or (not text and any(translations)):
            raise Unacceptable(f"{text[:100]!r} is translated by {translations!r}")


def verdict(stream: Stream, answer: Answer) -> bool:
    """Whether texts were answered and must be looked at; a refusal is right where the input is an error."""
    if (answer.code == 2) != (stream.texts is None):
        raise Unacceptable(f"{stream.content[:300]!r} gave {answer.code}, {answer.message}")
    return answer.code == 0
