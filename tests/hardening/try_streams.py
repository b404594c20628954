"""Any standard input: one answer per line, in order, or a one-line error that names the wrong line."""

import random

from hardening.campaign import Verdict
from hardening.program import Call
from hardening.runs import LABELS, Runs
from hardening.streams import check_predictions, check_translations, draw_predict, draw_translate, verdict


def attempt(runs: Runs, call: Call, draw: random.Random) -> Verdict:
    if draw.random() < 0.7:
        stream = draw_predict(draw)
        run = draw.choice([runs.words, runs.characters])
        answer = call(["predict", str(run), *stream.flags], stream.content)
        if verdict(stream, answer):
            check_predictions(answer.lines, stream.texts or [], LABELS, "--json" in stream.flags)
    else:
        stream = draw_translate(draw)
        answer = call(["translate", str(runs.translator), *stream.flags], stream.content)
        if verdict(stream, answer):
            check_translations(answer.lines, stream.texts or [], stream.flags)
    return "right" if answer.code == 0 else "error"
