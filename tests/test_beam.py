"""The paper's beam search, compared with an exhaustive loop and the authors' recorded beams, also for Marian."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import MarianConfig, MarianMTModel

from support import GOLDEN, reference_weights
from transevolve import TransEvolveConfig, TransEvolveForConditionalGeneration, load_reference
from transevolve.cli import main
from transevolve.decoding import BeamOptions, Hypothesis, beam_search, generate_beams
from transevolve.decoding.continuations import CHUNK, fast_topk

VOCAB, START, END = 24, 1, 2
SHAPE = {"vocab_size": VOCAB, "hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 64}
LENGTHS = [6, 4, 1]
SYSTEMS = ["fullFF-1", "randomFF-2", "fullFF-2:linear", "marian"]


def build(system: str, **options):
    torch.manual_seed(0)
    if system == "marian":
        sides = {
            f"{side}_{what}": value
            for side in ("encoder", "decoder")
            for what, value in (("layers", 2), ("attention_heads", 4), ("ffn_dim", 64))
        }
        ids = {"pad_token_id": 0, "eos_token_id": END, "bos_token_id": START, "decoder_start_token_id": START}
        config = MarianConfig(vocab_size=VOCAB, d_model=32, forced_eos_token_id=None, init_std=0.3, **ids, **sides)
        return MarianMTModel(config).eval()
    variant, _, backend = system.partition(":")
    shape = {**SHAPE, "block_depth": 2, **options}
    config = TransEvolveConfig.variant(variant, attention=backend or "auto", **shape)
    return TransEvolveForConditionalGeneration(config).eval()


def source(lengths: list[int] = LENGTHS) -> dict[str, Tensor]:
    ids = torch.randint(3, VOCAB, (len(lengths), max(lengths)), generator=torch.Generator().manual_seed(3))
    mask = (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()
    return {"input_ids": ids.masked_fill(mask == 0, 0), "attention_mask": mask}


@torch.no_grad()
def plainly(model, ids: Tensor, mask: Tensor, options: BeamOptions) -> list[Hypothesis]:
    """A simple, slow search: one sentence, the whole prefix for each token, every step up to the limit."""
    alive, found = [([START], 0.0)], []
    limit = min(options.max_new_tokens or 100, int(mask.sum()) + options.extra_length)
    for length in range(1, limit + 1):
        rows = len(alive)
        prefixes = torch.tensor([tokens for tokens, _ in alive])
        logits = model(ids.expand(rows, -1), mask.expand(rows, -1), decoder_input_ids=prefixes).logits[:, -1]
        log_p = logits.log_softmax(-1)
        if length <= options.min_new_tokens:
            log_p[:, END] = -torch.inf
        longer = [
            ([*tokens, token], score + float(log_p[row, token]))
            for row, (tokens, score) in enumerate(alive)
            for token in range(VOCAB)
        ]
        longer = sorted(longer, key=lambda pair: -pair[1])[: 2 * options.beams]
        penalty = ((5 + length) / 6) ** options.alpha
        found += [Hypothesis(t[1:], s / penalty, True) for t, s in longer if t[-1] == END and s > -torch.inf]
        found = sorted(found, key=lambda h: -h.score)[: options.beams]
        alive = [(t, s) for t, s in longer if t[-1] != END][: options.beams]
    return (found or [Hypothesis(t[1:], s / penalty, False) for t, s in alive])[: options.n_best]


def same(found: list[Hypothesis], expected: list[Hypothesis]) -> None:
    assert [(h.ids, h.finished) for h in found] == [(h.ids, h.finished) for h in expected]
    assert [h.score for h in found] == pytest.approx([h.score for h in expected], abs=1e-4)


@pytest.mark.parametrize(
    "options",
    [
        BeamOptions(extra_length=4),
        BeamOptions(beams=3, n_best=3, extra_length=3, alpha=1.0),
        BeamOptions(beams=2, n_best=2, max_new_tokens=6, min_new_tokens=3, alpha=-0.5),
        BeamOptions(beams=1, max_new_tokens=5),
    ],
    ids=["paper", "three", "shorter", "greedy"],
)
@pytest.mark.parametrize("system", SYSTEMS)
def test_a_search_finds_what_an_exhaustive_loop_finds(system, options):
    """Each sentence by itself, though searched in a padded batch that shrinks."""
    model, batch = build(system), source()
    found = beam_search(model, **batch, options=options)
    for row, length in enumerate(LENGTHS):
        ids, mask = (batch[name][row : row + 1, :length] for name in ("input_ids", "attention_mask"))
        same(found[row], plainly(model, ids, mask, options))


def recorded_beams(name: str, folder: Path):
    """Model, source, limit and recorded ids and scores of every beam search in a recording."""
    recorded = np.load(folder / f"{name}.npz")
    if name.startswith("seeded"):
        weights, heads = reference_weights(recorded, hidden=512, vocab=50), 8
    else:
        weights, heads = {key[2:]: recorded[key] for key in recorded.files if key.startswith(("w/", "r/"))}, 2
    model = load_reference(weights, heads=heads).eval()
    own_end = model.encoder.embedding.weight[END].clone()
    for key in sorted(k for k in recorded.files if k.startswith("out/beam_k") and k.endswith(".ids")):
        strength, case = key.removeprefix("out/beam_k").removesuffix(".ids").rsplit("_", 1)
        end = own_end if strength == "none" else torch.from_numpy(recorded[f"in/beam_k{strength}.eos_row"])
        with torch.no_grad():
            model.encoder.embedding.weight[END] = end
        ids = torch.from_numpy(recorded[f"in/beam_{'pad' if case == 'pad' else 'nopad'}.src"]).long()
        limit = 3 if case == "short" else ids.shape[1] + 10
        yield model, ids, limit, recorded[key][:, :, 1:].tolist(), recorded[f"{key[:-4]}.scores"]


@pytest.mark.parametrize("name", ["seeded_seq2seq_full_1x6", "small_seq2seq_full_1x2"])
def test_the_authors_beams(name):
    """All finished hypotheses in the same order; if there are none, the beams that were cut off."""
    folder = GOLDEN if name.startswith("seeded") else Path(os.environ.get("TRANSEVOLVE_GOLDEN", ""))
    if not (folder / f"{name}.npz").is_file():
        pytest.skip(f"{name}.npz is not here; TRANSEVOLVE_GOLDEN names the folder of the larger recordings")
    compared = 0
    for model, ids, limit, beams, scores in recorded_beams(name, folder):
        found = beam_search(model, ids, (ids != 0).long(), BeamOptions(4, 0.6, 100, limit, n_best=4))
        for own, sequences, theirs in zip(found, beams, scores, strict=True):
            ended = [sequence[: sequence.index(END) + 1] for sequence in sequences if END in sequence]
            if ended:
                assert [h.ids for h in own[: len(ended)]] == ended
                assert [h.score for h in own[: len(ended)]] == pytest.approx(theirs[: len(ended)], abs=1e-4)
                compared += len(ended)
            else:
                assert [h.ids for h in own] == sequences
                penalty = ((5 + limit) / 6) ** 0.6  # which the authors' code leaves out here
                assert [h.score * penalty for h in own] == pytest.approx(theirs, abs=1e-3)
    assert compared >= 30


@pytest.mark.parametrize("system", SYSTEMS)
def test_each_sentence_has_its_own_limit(system):
    model, batch = build(system), source()
    found = beam_search(model, **batch, options=BeamOptions(extra_length=3, min_new_tokens=100))
    assert [len(own[0].ids) for own in found] == [length + 3 for length in LENGTHS]
    assert not any(own[0].finished for own in found)


@pytest.mark.parametrize("system", SYSTEMS)
def test_sentences_that_are_done_leave_the_batch(system):
    model, batch, rows = build(system), source(), []
    model.lm_head.register_forward_pre_hook(lambda _, inputs: rows.append(inputs[0].shape[0]))
    beam_search(model, **batch, options=BeamOptions(extra_length=2, min_new_tokens=100))
    assert rows == [3, *[12] * 2, *[8] * 3, *[4] * 2]


def test_hypotheses_are_sorted():
    options = BeamOptions(n_best=4, extra_length=12)
    for own in beam_search(build("fullFF-1"), **source(), options=options):
        assert 1 <= len(own) <= 4
        assert [h.score for h in own] == sorted((h.score for h in own), reverse=True)
        assert len({tuple(h.ids) for h in own}) == len(own)
        assert all((h.ids[-1] == END) == h.finished and END not in h.ids[:-1] for h in own)


@pytest.mark.parametrize("system", SYSTEMS)
def test_generate_reaches_the_same_search(system):
    model, batch = build(system), source()
    options = BeamOptions(n_best=2, alpha=0.8, extra_length=4)
    direct = beam_search(model, **batch, options=options)
    asked = {"num_beams": 4, "num_return_sequences": 2, "alpha": 0.8, "extra_length": 4, "max_new_tokens": 99}
    out = model.generate(**batch, custom_generate=generate_beams, return_dict_in_generate=True, **asked)
    assert torch.equal(out.sequences, model.generate(**batch, custom_generate=generate_beams, **asked))
    rows = [h for own in direct for h in own]
    assert out.sequences[:, 0].tolist() == [START] * len(rows)
    assert [row[1 : 1 + len(h.ids)] for row, h in zip(out.sequences.tolist(), rows, strict=True)] == [
        h.ids for h in rows
    ]
    assert out.sequences_scores.tolist() == pytest.approx([h.score for h in rows], abs=1e-5)


def test_generate_honours_processors_and_length():
    model, batch = build("fullFF-1"), source()
    asked = {"num_beams": 4, "max_new_tokens": 5, "min_new_tokens": 5, "bad_words_ids": [[7], [9]]}
    ids = model.generate(**batch, custom_generate=generate_beams, **asked)
    assert ids.shape == (3, 6)
    assert not torch.isin(ids, torch.tensor([END, 7, 9])).any()


@pytest.mark.parametrize("system", SYSTEMS[:3])
def test_an_empty_source_gives_finite_outputs(system):
    model, batch = build(system), source([3, 0])
    found = beam_search(model, **batch, options=BeamOptions(extra_length=5, n_best=2))
    assert all(np.isfinite(h.score) and len(h.ids) <= 8 for own in found for h in own)
    same(
        found[1], plainly(model, batch["input_ids"][1:], batch["attention_mask"][1:], BeamOptions(4, 0.6, 5, n_best=2))
    )


def test_any_of_several_end_tokens_ends():
    model = build("fullFF-1", eos_token_id=[2, 5, 6, 7])
    for own in beam_search(model, **source(), options=BeamOptions(n_best=4)):
        assert all(h.ids[-1] in (2, 5, 6, 7) for h in own if h.finished)
        assert all(not {2, 5, 6, 7} & set(h.ids[:-1]) for h in own)


@pytest.mark.parametrize("n", [7, CHUNK * 40, CHUNK * 40 + 17])
def test_the_largest_are_topk(n):
    x = torch.randn(5, n)
    x[0, -3:] = 9.0 + torch.arange(3)
    values, index = fast_topk(x, 6)
    expected = x.topk(6)
    assert torch.equal(values, expected.values)
    assert torch.equal(index, expected.indices)


def test_invalid_values_are_refused():
    with pytest.raises(ValueError, match="n_best must be between 1 and beams=4"):
        BeamOptions(n_best=5)
    with pytest.raises(ValueError, match="extra_length and max_new_tokens must be at least 1"):
        BeamOptions(extra_length=0)
    with pytest.raises(ValueError, match="vocabulary of at least 40"):
        beam_search(build("fullFF-1"), **source(), options=BeamOptions(beams=20))
    with pytest.raises(ValueError, match="set decoder_start_token_id"):
        beam_search(build("fullFF-1", bos_token_id=None), **source())


TINY = {"size": "small", "vocab": 40, "batch": 2, "new_tokens": 4, "source_length": 5}
BENCH = ["bench", "decode", *(f"--{name}={value}" for name, value in TINY.items())]


@pytest.mark.slow
def test_bench_decode_compares_systems_and_ways(tmp_path, capsys):
    command = [*BENCH, "--systems", "fullFF-1", "marian", "--repeats", "2", "--output", str(tmp_path)]
    assert main(command) == 0
    rows = json.loads((tmp_path / "decode.json").read_text())["rows"]
    kinds = [("fullFF-1", "generate"), ("fullFF-1", "uncached"), ("fullFF-1", "beam")]
    assert [(row["system"], row["way"]) for row in rows] == [*kinds, ("marian", "generate"), ("marian", "beam")]
    assert [len(row["seconds"]) for row in rows] == [2, 1, 2, 2, 2]
    assert rows[0]["self_bytes"] < rows[3]["self_bytes"]
    assert rows[0]["cross_bytes"] < rows[3]["cross_bytes"] / 4
    assert "speed / marian generate" in (tmp_path / "decode.md").read_text()
    assert "tokens/s" in capsys.readouterr().out
    assert main(command) == 0
    assert [len(row["seconds"]) for row in json.loads((tmp_path / "decode.json").read_text())["rows"]] == [
        2,
        1,
        2,
        2,
        2,
    ]


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        (["--systems", "maria"], "did you mean 'marian'?"),
        (["--systems", "fullFF-1:litteral"], "did you mean 'literal'?"),
        (["--beams", "30"], "--vocab must be at least twice --beams"),
        (["--new_tokens", "0"], "--new_tokens must be at least 1"),
    ],
)
def test_bench_decode_reports_mistakes(arguments, reported, tmp_path, capsys):
    assert main([*BENCH, *arguments, "--output", str(tmp_path)]) == 2
    assert reported in capsys.readouterr().err
