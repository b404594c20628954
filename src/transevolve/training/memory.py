"""Finds the number of parts per batch that fits a memory budget, measured in a separate process."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    PreTrainedConfig,
)

from ..core.devices import default_device
from ..core.errors import UserError
from ..core.peak_memory import ALLOCATOR, peak_memory
from ..core.values import parse_bytes
from ..data.batching import Batches

MASKED = 0.15


def parts_within(budget: str, config: PreTrainedConfig, batches: Batches) -> int:
    """The number of parts of the largest batch so that a step adds at most `budget` to the model's memory."""
    allowed = parse_bytes(budget)
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
                f"training.memory={budget} is too small: one row of {length:,} tokens needs {found / 1e6:,.1f} MB;"
                " increase it, reduce data.max_length, or use model.attention=linear"
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
        raise UserError(f"training.memory: {rows} rows of {length:,} tokens could not be measured: {last}")
    return int(json.loads(done.stdout.splitlines()[-1]))


def auto_class(config: PreTrainedConfig) -> Any:
    """The Auto class of the model that `config.architectures` names."""
    heads = {"ForMaskedLM": AutoModelForMaskedLM, "ForCausalLM": AutoModelForCausalLM}
    for head, found in heads.items():
        if has_head(config, head):
            return found
    return AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForSequenceClassification


def targets(config: PreTrainedConfig, ids: Tensor) -> dict[str, Any]:
    """The inputs of a training step besides the tokens."""
    if has_head(config, "ForMaskedLM"):
        return {
            "labels": ids.masked_fill(torch.rand(ids.shape, device=ids.device) > MASKED, -100),
            "labelled_only": True,
        }
    if config.is_encoder_decoder or has_head(config, "ForCausalLM"):
        return {"labels": ids}
    return {"labels": torch.zeros(len(ids), dtype=torch.long, device=ids.device)}


def has_head(config: PreTrainedConfig, head: str) -> bool:
    return any(name.endswith(head) for name in config.architectures or ())


def main(folder: str, rows: int, length: int) -> None:
    """Print the number of bytes that a training step of this shape needs in addition to the model."""
    device = str(default_device())
    config = AutoConfig.from_pretrained(Path(folder))
    model = auto_class(config).from_config(config).to(device).train()
    for shape in ((1, 8), (rows, length)):
        ids = torch.randint(0, config.vocab_size, shape, device=device)
        with peak_memory(device) as read:
            model(input_ids=ids, **targets(config, ids)).loss.backward()
        count, _ = read()
    print(json.dumps(count))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
