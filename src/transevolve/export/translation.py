"""Exports a translator to `encoder.onnx` and `decoder.onnx`, or to two `torch.export` programs."""

import json
import shutil
from pathlib import Path

import torch
from torch import Tensor

from ..core.errors import UserError
from ..decoding import beam_search
from ..inference import LoadedRun
from ..kinds.translation import run_search
from ..models.heads.seq2seq import TransEvolveForConditionalGeneration
from ..runtime import DECODER, ENCODER, FACTS, TOKENIZER
from .classifier import dynamic_shapes, require_close, sample
from .int8_onnx import quantize_onnx
from .onnx import INPUTS, write_onnx
from .program import load_program, write_program
from .timing import Timing, alternate
from .translator_graphs import MAX_BEAMS, SourceGraph, StepGraph, prepare, step_sample, step_shapes

PROGRAMS = "encoder.pt2", "decoder.pt2"
SENTENCES, TOKENS = 8, (3, 7, 12, 20)
TOLERANCE = 1e-3
TEXTS = ["A text.", "Ein Satz, 12 Wörter [PAD]!"]


def write_translator(run: LoadedRun, folder: Path, format: str, int8: bool, rounds: int) -> tuple[float, list[Timing]]:
    """Writes both graphs and the settings of beam search; returns the largest difference of a score, and timings.

    For ONNX, beam search is compared with PyTorch on random sources; for a program, only one step.
    """
    if not isinstance(run.model, TransEvolveForConditionalGeneration):
        raise UserError(f"{run.folder} is a {run.model.config.model_type}: only TransEvolve translators are supported")
    model = prepare(run.model)
    source, step = SourceGraph(model).eval(), StepGraph(model).eval()
    arguments = sample(2, 6, model.config.vocab_size)
    with torch.no_grad():
        encoded = list(source(*arguments))
    steps = step_sample(step, encoded), step_shapes(step, encoded)
    past = [name for name, _ in step.past()]
    blocks = range(len(model.decoder.blocks))
    names = ["values", *(f"{what}_{b}" for b in blocks for what in ("cross_keys", "cross_bias"))]
    if format == "torch-export":
        write_program(source, arguments, dynamic_shapes(), folder / PROGRAMS[0])
        write_program(step, *steps, folder / PROGRAMS[1])
        return _step_difference(step, folder), []
    inputs, outputs = ["tokens", "position", "visible", *names, *past], ["scores", "ids"]
    write_onnx(source, arguments, dynamic_shapes(), INPUTS, names, folder / ENCODER)
    present = [name.replace("past", "present") for name in past]
    write_onnx(step, *steps, inputs, [*outputs, *present], folder / DECODER)
    if int8:
        for name in (ENCODER, DECODER):
            quantize_onnx(folder / name)
    (folder / FACTS).write_text(json.dumps(_facts(run, step), indent=1) + "\n", encoding="utf-8")
    shutil.copyfile(run.folder / TOKENIZER, folder / TOKENIZER)
    return _compare_searches(run, folder, int8, rounds)


def _facts(run: LoadedRun, step: StepGraph) -> dict:
    search, config = run_search(run.recipe), run.model.config
    generation = run.model.generation_config
    start = generation.decoder_start_token_id if generation is not None else None
    return {
        "start": config.decoder_start_token_id if start is None else start,
        "ends": [] if config.eos_token_id is None else torch.as_tensor(config.eos_token_id).reshape(-1).tolist(),
        "pad": run.session.pad,
        "max_length": run.session.max_length,
        "most_beams": step.best // 2,
        "search": {
            "beam": min(search.beams, MAX_BEAMS),
            "length_penalty": search.alpha,
            "extra_length": search.extra_length,
            "n_best": 1,
        },
        "past": step.past(),
    }


def _step_difference(step: StepGraph, folder: Path) -> float:
    """Returns the difference of one step, with other sizes than those it was traced with."""
    source, program = (load_program(folder / name) for name in PROGRAMS)
    with torch.no_grad():
        encoded = list(source(*sample(3, 9, step.embedding.num_embeddings)))
        example = step_sample(step, encoded, beams=2, length=5)
        difference = float((step(*example)[0] - program(*example)[0]).abs().max())
    require_close(difference, PROGRAMS[1], TOLERANCE)
    return difference


def _compare_searches(run: LoadedRun, folder: Path, int8: bool, rounds: int) -> tuple[float, list[Timing]]:
    """Compares the best translations of random sources; in float32 the ids must be equal too."""
    from ..runtime.translator import OnnxTranslator

    translator = OnnxTranslator(folder, threads=torch.get_num_threads())
    expected = [row.tolist() for row in run.session.encode(TEXTS, lambda i: TEXTS[i]).rows()]
    if translator.encode(TEXTS) != expected:
        raise UserError("the tokenizer of this run only works with transformers: export it with --format hf")
    search = run_search(run.recipe, beam=min(run.recipe.training.beams, MAX_BEAMS), extra_length=10)
    same = translator.search(extra_length=10)
    worst, timings = 0.0, []
    for length in TOKENS:
        ids, mask = sample(SENTENCES, max(length, SENTENCES), run.model.config.vocab_size)
        sources = [row[: int(n)].tolist() for row, n in zip(ids, mask.sum(1), strict=True)]

        def ours(ids: Tensor = ids, mask: Tensor = mask) -> list:
            with torch.inference_mode():
                return beam_search(run.model, ids, mask, search)

        def theirs(sources: list[list[int]] = sources) -> list:
            return translator.translate_ids(sources, same)

        for expected, found in zip(ours(), theirs(), strict=True):
            worst = max(worst, abs(expected[0].score - found[0].score))
            if not int8 and expected[0].ids != found[0].ids and abs(expected[0].score - found[0].score) > TOLERANCE:
                raise UserError(f"{DECODER} decodes different tokens than the model: it was not written")
        if rounds:
            timings.append(alternate(length, ours, theirs, rounds))
    if not int8:
        require_close(worst, DECODER, TOLERANCE)
    return worst, timings
