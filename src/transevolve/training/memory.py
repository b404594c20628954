"""In how many parts to work through a batch to stay within a memory budget: measured, in a process of its own."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from transformers import AutoConfig, PreTrainedConfig

from ..core.devices import default_device
from ..core.errors import UserError
from ..core.peak_memory import ALLOCATOR, parse_bytes, peak_memory
from ..data.batching import Batches


def parts_within(budget: str, config: PreTrainedConfig, batches: Batches) -> int:
    """Parts of the largest batch such that a step adds at most `budget` to the memory of the model."""
    try:
        allowed = parse_bytes(budget)
    except ValueError as error:
        raise UserError(f"training.{error}") from None
    rows, length = batches.largest()
    rows = -(-rows // batches.processes)
    parts = 1
    while True:
        share = -(-rows // parts)
        found = measured(config, share, length)
        if found <= allowed:
            return parts
        if share == 1:
            raise UserError(
                f"training.memory={budget} is too little: one row of {length:,} tokens takes {found / 1e6:,.1f} MB;"
                " give more, shorten data.max_length, or use model.attention=linear"
            )
        parts = min(rows, max(parts + 1, int(parts * found / max(allowed, 1))))


def measured(config: PreTrainedConfig, rows: int, length: int) -> int:
    with tempfile.TemporaryDirectory() as folder:
        config.save_pretrained(folder)
        done = subprocess.run(
            [sys.executable, "-m", "transevolve.training.memory", folder, str(rows), str(length)],
            capture_output=True,
            text=True,
            env={
                **{k: v for k, v in os.environ.items() if not k.startswith(("RANK", "WORLD_", "LOCAL_"))},
                **ALLOCATOR,
            },
            check=False,
        )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise UserError(f"training.memory: {rows} rows of {length:,} tokens could not be tried: {last}")
    return int(json.loads(done.stdout.splitlines()[-1]))


def main(folder: str, rows: int, length: int) -> None:
    """Prints how many bytes a training step of that shape adds to the model."""
    from transformers import AutoModelForSeq2SeqLM, AutoModelForSequenceClassification

    device = str(default_device())
    config = AutoConfig.from_pretrained(Path(folder))
    kind = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForSequenceClassification
    model = kind.from_config(config).to(device).train()
    for shape in ((1, 8), (rows, length)):
        ids = torch.randint(0, config.vocab_size, shape, device=device)
        labels = ids if config.is_encoder_decoder else torch.zeros(shape[0], dtype=torch.long, device=device)
        with peak_memory(device) as read:
            model(input_ids=ids, labels=labels).loss.backward()
        count, _ = read()
    print(json.dumps(count))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
