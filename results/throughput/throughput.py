"""Training end to end: `transevolve train`, its bare loop, and what one would write with Hugging Face.

    python results/throughput/throughput.py --data ag_news
    python results/throughput/throughput.py --task multi30k --data multi30k

AG News: BERT under `Trainer`. Multi30k: Marian under `Seq2SeqTrainer`. Same tokenizer, batches, width, depth, dropout
and optimizer for all. Each is measured in steady state, in a process of its own, in turns. `transevolve` sets up its
process as it always does; `--alike` gives the Hugging Face script the same environment.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from statistics import median

from transevolve.core.environment import tune_environment

THEIRS = "Hugging Face Trainer"
WAYS = ("bare loop", "transevolve train", THEIRS)
if "--way" in sys.argv and (THEIRS not in sys.argv or "--alike" in sys.argv):
    tune_environment()

import torch  # noqa: E402
from transformers import (  # noqa: E402
    BertConfig,
    BertForSequenceClassification,
    PreTrainedModel,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

from transevolve.cli import main as transevolve  # noqa: E402
from transevolve.config.files import load_recipe  # noqa: E402
from transevolve.core.machine import describe_machine  # noqa: E402
from transevolve.data import load_data  # noqa: E402
from transevolve.data.batching import Batches, RowStore  # noqa: E402
from transevolve.kinds.registry import decide, resolve  # noqa: E402
from transevolve.kinds.session import Session  # noqa: E402
from transevolve.training.optimizer import build_optimizer, build_schedule  # noqa: E402


def tokens_of(batch: dict) -> int:
    return int(batch["attention_mask"].sum())


def rate(batches: list[dict], seconds: list[float], warmup: int) -> float:
    """Tokens per second over the steps after the warm-up."""
    return sum(map(tokens_of, batches[warmup : len(seconds)])) / sum(seconds[warmup:])


def bare_loop(recipe, data, batches: list[dict], low: bool, warmup: int) -> float:
    """Forward, backward and optimizer on ready batches."""
    torch.manual_seed(0)
    model = resolve(recipe).build(recipe, data).train()
    optimizer = build_optimizer(model, recipe.training)
    build_schedule(optimizer, recipe.training, len(batches), model.config.hidden_size)
    seconds = []
    for batch in batches:
        start = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=low):
            loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        seconds.append(time.perf_counter() - start)
    return rate(batches, seconds, warmup)


def trained(arguments: list[str], steps: int, low: bool, warmup: int) -> float:
    """`transevolve train`, by its own metrics after the first line."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        limits = [f"--training.max_steps={steps}", f"--training.eval_steps={steps}", f"--training.save_steps={steps}"]
        limits += [f"--training.precision={'bf16' if low else 'fp32'}", f"--training.log_steps={warmup}"]
        assert transevolve(["train", *arguments, *limits, f"--output={run}"]) == 0
        rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        first, *lines = [row for row in rows if "tokens_per_second" in row]
        seen, seconds = first["tokens"], 0.0
        for line in lines:
            seconds += (line["tokens"] - seen) / line["tokens_per_second"]
            seen = line["tokens"]
        return (seen - first["tokens"]) / seconds


class Clock(TrainerCallback):
    def __init__(self):
        self.times: list[float] = []

    def on_step_begin(self, *_, **__):
        self.times.append(time.perf_counter())

    def on_train_end(self, *_, **__):
        self.times.append(time.perf_counter())


def bert(recipe, data) -> PreTrainedModel:
    """Of the same width and depth."""
    torch.manual_seed(0)
    ours = resolve(recipe).build(recipe, data).config
    names = ("vocab_size", "hidden_size", "num_attention_heads", "intermediate_size")
    sizes = {name: getattr(ours, name) for name in names}
    depth = ours.num_blocks * ours.block_depth
    return BertForSequenceClassification(BertConfig(num_hidden_layers=depth, num_labels=ours.num_labels, **sizes))


def marian(recipe, data) -> PreTrainedModel:
    """Of the same width and depth, with the same dropout and label smoothing."""
    torch.manual_seed(0)
    model = replace(recipe.model, system="marian", variant=None)
    theirs = replace(recipe, model=model)
    return resolve(theirs).build(theirs, data)


def hugging_face(recipe, model: PreTrainedModel, batches: list[dict], low: bool, warmup: int) -> float:
    """A model under the Trainer, on the same batches."""
    translates = model.config.is_encoder_decoder
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        arguments = (Seq2SeqTrainingArguments if translates else TrainingArguments)(
            output_dir=folder,
            max_steps=len(batches),
            per_device_train_batch_size=1,
            learning_rate=recipe.training.learning_rate,
            label_smoothing_factor=recipe.model.label_smoothing or 0.0,
            bf16=low,
            use_cpu=True,
            report_to=[],
            save_strategy="no",
            logging_steps=100,
            remove_unused_columns=False,
            dataloader_pin_memory=False,
            disable_tqdm=True,
        )
        (Seq2SeqTrainer if translates else Trainer)(
            model,
            arguments,
            train_dataset=batches,  # pyright: ignore[reportArgumentType]
            data_collator=lambda rows: rows[0],
            callbacks=[clock],
        ).train()
    seconds = [b - a for a, b in zip(clock.times, clock.times[1:], strict=False)]
    return rate(batches, seconds, warmup)


TASKS = {"ag_news": ("cpu/agnews", bert), "multi30k": ("cpu/multi30k-en-de", marian)}


def measure(options: argparse.Namespace) -> float:
    """Tokens per second of one way, in this process."""
    low = options.precision == "bf16"
    name, theirs = TASKS[options.task]
    sizes = {"path": options.data, "train_rows": options.rows, "validation_rows": 100, "test_rows": 100}
    if options.way == "transevolve train":
        flags = [f"--data.{key}={value}" for key, value in sizes.items()]
        return trained([name, *flags], options.steps, low, options.warmup)
    recipe = load_recipe(name, {"data": sizes})
    kind = resolve(recipe)
    data = load_data(recipe.data)
    decide(kind, recipe, data)
    rows, training = data.train, recipe.training
    order = Batches(rows["length"][:], rows=training.batch_size, tokens=training.batch_tokens, seed=training.seed)
    ours = kind.build(recipe, data)
    store, collate = RowStore(rows), kind.collator(Session(ours, data.tokenizer, recipe, torch.device("cpu"), 4096))
    batches = [collate([store[i] for i in numbers]) for numbers, _ in zip(order, range(options.steps), strict=False)]
    if options.way == THEIRS:
        return hugging_face(recipe, theirs(recipe, data), batches, low, options.warmup)
    return bare_loop(recipe, data, batches, low, options.warmup)


def measure_in_turns(rounds: int) -> dict[str, list[dict]]:
    """What each way printed, in a new process each time."""
    found = {way: [] for way in WAYS}
    for _ in range(rounds):
        for way in WAYS:
            command = [sys.executable, __file__, *sys.argv[1:], "--way", way]
            output = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout
            found[way].append(json.loads(output))
            print(f"{way}: {found[way][-1]['rate']:,.0f} tokens/s", file=sys.stderr)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", choices=list(TASKS), default="ag_news")
    parser.add_argument("--data", required=True, help="folder of the data set")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--warmup", type=int, default=5, help="steps that are not counted")
    parser.add_argument("--rows", type=int, default=8000, help="training rows to read")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--alike", action="store_true", help="the environment of transevolve for all")
    parser.add_argument("--way", choices=WAYS, help="measure only this one, in this process")
    options = parser.parse_args()
    if options.way:
        with redirect_stdout(sys.stderr):
            found = {"rate": measure(options), "machine": describe_machine()}
        print(json.dumps(found))
        return
    found = measure_in_turns(options.rounds)
    machine, untuned = (found[way][0]["machine"] for way in ("transevolve train", THEIRS))
    print(f"# {options.task}, tokens per second in training, {options.precision}\n")
    print("".join(f"- {key}: `{value}`\n" for key, value in machine.items()))
    print(f"Hugging Face Trainer: OpenMP `{untuned['OpenMP']}`, allocator `{untuned['allocator']}`\n")
    print("| | tokens/s | relative to the Hugging Face Trainer |\n|---|---|---|")
    medians = {way: median(one["rate"] for one in records) for way, records in found.items()}
    for way, tokens in medians.items():
        print(f"| {way} | {tokens:,.0f} | {tokens / medians[THEIRS]:.2f} |")


if __name__ == "__main__":
    main()
