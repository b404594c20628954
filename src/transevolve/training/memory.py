"""Finds the number of parts per batch that fits a memory budget, measured in a separate process."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import torch
import transformers
from transformers import AutoConfig, PreTrainedConfig

from ..core.devices import default_device
from ..core.errors import UserError
from ..core.peak_memory import ALLOCATOR, peak_memory
from ..core.values import parse_bytes
from ..data.batching import Batches

if TYPE_CHECKING:
    from ..kinds.base import Kind

INPUTS = "inputs.pt"


def parts_within(budget: str, kind: "Kind", config: PreTrainedConfig, batches: Batches) -> int:
    """The number of parts of the largest batch so that a step adds at most `budget` to the model's memory."""
    allowed = parse_bytes(budget)
    rows, length = batches.largest()
    rows = -(-rows // batches.processes)
    parts = 1
    while True:
        share = -(-rows // parts)
        found = measured(kind, config, share, length)
        if found <= allowed:
            return parts
        if share == 1:
            raise UserError(
                f"training.memory={budget} is too small: one row of {length:,} tokens needs {found / 1e6:,.1f} MB;"
                " increase it, reduce data.max_length, or use model.attention=linear"
            )
        parts = min(rows, max(parts + 1, int(parts * found / max(allowed, 1))))


def measured(kind: "Kind", config: PreTrainedConfig, rows: int, length: int) -> int:
    """The bytes that a training step of this shape needs in addition to the model."""
    draw = torch.Generator().manual_seed(0)
    random = [torch.randint(0, config.vocab_size, shape, generator=draw) for shape in ((1, 8), (rows, length))]
    with tempfile.TemporaryDirectory() as folder:
        config.save_pretrained(folder)
        torch.save([{"input_ids": ids, **kind.sample_labels(ids, config)} for ids in random], Path(folder) / INPUTS)
        done = subprocess.run(
            [sys.executable, "-m", "transevolve.training.memory", folder, kind.auto_class.__name__],
            capture_output=True,
            text=True,
            env={k: v for k, v in os.environ.items() if not k.startswith(("RANK", "WORLD_", "LOCAL_"))} | ALLOCATOR,
            check=False,
        )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise UserError(f"training.memory: {rows} rows of {length:,} tokens could not be measured: {last}")
    return int(json.loads(done.stdout.splitlines()[-1]))


def main(folder: str, auto_class: str) -> None:
    """Print the peak of the last of the inputs in the folder; the first are a warm-up."""
    device, config = default_device(), AutoConfig.from_pretrained(folder)
    model = getattr(transformers, auto_class).from_config(config).to(device).train()
    counts = []
    for inputs in torch.load(Path(folder) / INPUTS, map_location=device):
        with peak_memory(str(device)) as read:
            model(**inputs).loss.backward()
        counts.append(read()[0])
    print(json.dumps(counts[-1]))


if __name__ == "__main__":
    main(*sys.argv[1:])
