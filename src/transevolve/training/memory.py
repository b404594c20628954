"""In how many parts to work through a batch to stay within a memory budget: measured, in a process of its own."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from transformers import AutoConfig, PreTrainedConfig

from ..bench.options import parse_bytes
from ..bench.probe import ALLOCATOR, _peak
from ..errors import UserError
from .batching import Batches


def parts_within(budget: str, config: PreTrainedConfig, batches: Batches) -> int:
    """Parts of the largest batch such that a step adds at most `budget` to the memory of the model."""
    try:
        allowed = parse_bytes(budget)
    except ValueError as error:
        raise UserError(f"training.memory: {str(error).removeprefix('--memory ')}") from None
    rows, length = batches.largest()
    rows = -(-rows // batches.processes)
    one, two = measured(config, 1, length), measured(config, 2, length)
    each = max(two - one, 1)
    fit = int((allowed - one) // each) + 1
    if fit < 1:
        raise UserError(
            f"training.memory={budget} is too little: one row of {length:,} tokens takes {one / 1e6:,.0f} MB;"
            " give more, shorten data.max_length, or use model.attention=linear"
        )
    return max(1, -(-rows // min(fit, rows)))


def measured(config: PreTrainedConfig, rows: int, length: int) -> int:
    with tempfile.TemporaryDirectory() as folder:
        config.save_pretrained(folder)
        done = subprocess.run(
            [sys.executable, "-m", "transevolve.training.memory", folder, str(rows), str(length)],
            capture_output=True,
            text=True,
            env={**{k: v for k, v in os.environ.items() if not k.startswith(("RANK", "WORLD_", "LOCAL_"))}, **ALLOCATOR},
            check=False,
        )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise UserError(f"training.memory: {rows} rows of {length:,} tokens could not be tried: {last}")
    return int(json.loads(done.stdout.splitlines()[-1]))


def main(folder: str, rows: int, length: int) -> None:
    """Prints how many bytes a training step of that shape adds to the model."""
    from transformers import AutoModelForSequenceClassification

    device = "cuda" if torch.cuda.is_available() else "cpu"
    config = AutoConfig.from_pretrained(Path(folder))
    model = AutoModelForSequenceClassification.from_config(config).to(device).train()
    for shape in ((1, 8), (rows, length)):
        ids = torch.randint(0, config.vocab_size, shape, device=device)
        with _peak(device) as read:
            model(input_ids=ids, labels=torch.zeros(shape[0], dtype=torch.long, device=device)).loss.backward()
        count, _ = read()
    print(json.dumps(count))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
