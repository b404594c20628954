"""Export of a translator: `encoder.onnx` and `decoder.onnx`, or the same two as `torch.export` programs."""

import json
import shutil
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from ..core.errors import UserError
from ..decoding import beam_search
from ..inference import LoadedRun
from ..kinds.translation import run_search
from ..models.heads.seq2seq import TransEvolveForConditionalGeneration
from .classifier import dynamic_shapes, sample
from .int8_onnx import quantize_onnx
from .onnx import OPSET, quiet_exporter
from .timing import Timing
from .translator import MOST_BEAMS, SourceGraph, StepGraph, prepared, step_sample, step_shapes

ENCODER, DECODER, FACTS = "encoder", "decoder", "translator.json"
SENTENCES, TOKENS = 8, (3, 7, 12, 20)
TOLERANCE = 1e-3
TEXTS = ["A text.", "Ein Satz, 12 Wörter [PAD]!"]


def write_translator(run: LoadedRun, folder: Path, format: str, int8: bool, rounds: int) -> tuple[float, list[Timing]]:
    """Writes both graphs and the facts that a search needs; returns the largest difference of a score.

    In ONNX, the whole search is compared with PyTorch's on random sources; a program, one step.
    """
    if not isinstance(run.model, TransEvolveForConditionalGeneration):
        raise UserError(f"{run.folder} holds a {run.model.config.model_type}: only TransEvolve has a step to export")
    model = prepared(run.model)
    source, step = SourceGraph(model).eval(), StepGraph(model).eval()
    arguments = sample(2, 6, model.config.vocab_size)
    with torch.no_grad():
        encoded = list(source(*arguments))
    steps = step_sample(step, encoded), step_shapes(step, encoded)
    past = [name for name, _ in step.past()]
    blocks = range(len(model.decoder.blocks))
    names = ["values", *(f"{what}_{b}" for b in blocks for what in ("cross_keys", "cross_bias"))]
    if format == "torch-export":
        _write_program(source, arguments, dynamic_shapes(), folder / f"{ENCODER}.pt2")
        _write_program(step, *steps, folder / f"{DECODER}.pt2")
        return _step_difference(step, steps[0], folder), []
    inputs, outputs = ["tokens", "position", "visible", *names, *past], ["scores", "ids"]
    _write(source, arguments, dynamic_shapes(), ["input_ids", "attention_mask"], names, folder / f"{ENCODER}.onnx")
    present = [name.replace("past", "present") for name in past]
    _write(step, *steps, inputs, [*outputs, *present], folder / f"{DECODER}.onnx")
    if int8:
        for name in (ENCODER, DECODER):
            quantize_onnx(folder / f"{name}.onnx")
    (folder / FACTS).write_text(json.dumps(_facts(run, step), indent=1) + "\n", encoding="utf-8")
    shutil.copyfile(run.folder / "tokenizer.json", folder / "tokenizer.json")
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
            "beam": min(search.beams, MOST_BEAMS),
            "length_penalty": search.alpha,
            "extra_length": search.extra_length,
            "n_best": 1,
        },
        "past": step.past(),
    }


def _write(graph: nn.Module, arguments: tuple, shapes: dict, inputs: list[str], outputs: list[str], path: Path) -> None:
    with quiet_exporter():
        torch.onnx.export(
            graph,
            arguments,
            path,
            input_names=inputs,
            output_names=outputs,
            dynamic_shapes=shapes,
            dynamo=True,
            external_data=False,
            opset_version=OPSET,
            verbose=False,
        )


def _write_program(graph: nn.Module, arguments: tuple, shapes: dict, path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        warnings.filterwarnings("ignore", "No complete tensor found", UserWarning)
        torch.export.save(torch.export.export(graph, arguments, dynamic_shapes=shapes, strict=False), path)


def _step_difference(step: StepGraph, arguments: tuple, folder: Path) -> float:
    """Of one step of other sizes than those it was traced with."""
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore", FutureWarning)
        program = torch.export.load(folder / f"{DECODER}.pt2").module()
        source = torch.export.load(folder / f"{ENCODER}.pt2").module()
        encoded = list(source(*sample(3, 9, step.embedding.num_embeddings)))
        other = step_sample(step, encoded, beams=2, length=5)
        difference = float((step(*other)[0] - program(*other)[0]).abs().max())
    require_near(difference, f"{DECODER}.pt2")
    return difference


def _compare_searches(run: LoadedRun, folder: Path, int8: bool, rounds: int) -> tuple[float, list[Timing]]:
    """Scores of the best translations of random sources; float32 must give the same ids too."""
    from ..runtime.translator import OnnxTranslator

    translator = OnnxTranslator(folder, threads=torch.get_num_threads())
    expected = [row.tolist() for row in run.session.encode(TEXTS, lambda i: TEXTS[i]).rows()]
    if translator.encode(TEXTS) != expected:
        raise UserError("the tokenizer of this run works only in transformers: export it with --format hf")
    search = run_search(run.recipe, beam=min(run.recipe.training.beams, MOST_BEAMS), extra_length=10)
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
                raise UserError(f"{DECODER}.onnx decodes other tokens than the model: it was not written")
        if rounds:
            timings.append(Timing(length, *_turns(ours, theirs, rounds)))
    if not int8:
        require_near(worst, f"{DECODER}.onnx")
    return worst, timings


def require_near(difference: float, what: str) -> None:
    if not difference <= TOLERANCE:
        raise UserError(f"{what} differs from the model by {difference:.2g}, more than {TOLERANCE:g}: not written")


def _turns(ours: Callable[[], object], theirs: Callable[[], object], rounds: int) -> tuple[list[float], list[float]]:
    seconds: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for step, kept in zip((ours, theirs), seconds, strict=True):
            start = time.perf_counter()
            step()
            kept.append(time.perf_counter() - start)
    return seconds
