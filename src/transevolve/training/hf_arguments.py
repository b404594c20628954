"""Converts the training options to Hugging Face `TrainingArguments`."""

import os
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from transformers import TrainingArguments
from transformers.utils import logging

from ..config.recipe import TrainingOptions
from ..core.devices import default_device
from ..core.errors import UserError, suggestion
from ..core.json_files import read_json
from ..core.settings import check_ranges
from ..core.values import parse_bytes
from .optimizer import OPTIMIZERS, PAPER, SCHEDULES


def distributed_processes() -> int:
    return int(os.environ.get("WORLD_SIZE", "1"))


def check_training(options: TrainingOptions) -> None:
    """Raise an error for invalid options, before anything is read or written."""
    try:
        check_ranges(options)
    except ValueError as error:
        raise UserError(f"training.{error}") from None
    for name, known in (("schedule", [PAPER, *SCHEDULES]), ("optimizer", list(OPTIMIZERS))):
        value = getattr(options, name)
        if value not in known:
            raise UserError(f"unknown training.{name} {value!r}{suggestion(value, known)}")
    if options.batch_size is not None and options.batch_tokens is not None:
        raise UserError("training.batch_size and training.batch_tokens exclude each other: remove one")
    if options.schedule == PAPER and options.warmup < 1:
        raise UserError(f"the paper's schedule needs training.warmup in steps, such as 1000, not {options.warmup}")
    if options.memory is not None and options.accumulation is not None:
        raise UserError("training.memory finds the accumulation: remove training.accumulation")
    if options.memory is not None:
        try:
            parse_bytes(options.memory)
        except ValueError as error:
            raise UserError(f"training.{error}") from None
    if options.deepspeed is not None:
        if not Path(options.deepspeed).is_file():
            raise UserError(f"training.deepspeed: no file {options.deepspeed!r}")
        read_json(Path(options.deepspeed), dict[str, Any])
    if options.fsdp and distributed_processes() == 1:
        raise UserError("training.fsdp needs several processes: start with torchrun --nproc-per-node N -m transevolve")


def check_packages(options: TrainingOptions) -> None:
    for name, wanted in (("tensorboard", options.tensorboard), ("deepspeed", options.deepspeed)):
        if wanted and find_spec(name) is None:
            raise UserError(f"training.{name} needs the package {name}: pip install {name}")


def training_arguments(
    options: TrainingOptions,
    folder: Path,
    parts: int,
    metric: str,
    higher_is_better: bool,
    wrapped: list[str],
    validates: bool = True,
) -> TrainingArguments:
    """`metric` selects the model, if `validates`; `wrapped` are the modules that FSDP shards individually.

    If the DeepSpeed file does not set gradient clipping, training.clip is used instead of accelerate's default of 1.0.
    """
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    on_cpu = default_device().type == "cpu"
    settings: dict[str, Any] = {
        "output_dir": str(folder),
        "num_train_epochs": options.epochs or 1.0,
        "max_steps": options.max_steps or -1,
        "gradient_accumulation_steps": parts,
        "learning_rate": 1.0,
        "max_grad_norm": options.clip,
        "bf16": options.precision == "bf16",
        "torch_compile": options.compile,
        "gradient_checkpointing": options.gradient_checkpointing,
        "seed": options.seed,
        "eval_strategy": "no" if not validates else "steps" if options.eval_steps else "epoch",
        "eval_steps": options.eval_steps or None,
        "save_strategy": "steps" if options.save_steps else "epoch",
        "save_steps": options.save_steps or 500,
        "logging_strategy": "steps",
        "logging_steps": options.log_steps,
        "logging_nan_inf_filter": False,
        "include_num_input_tokens_seen": "non_padding",
        "metric_for_best_model": f"eval_{metric}",
        "greater_is_better": higher_is_better,
        "restore_callback_states_from_checkpoint": True,
        "report_to": [],
        "remove_unused_columns": False,
        "disable_tqdm": True,
        "use_cpu": on_cpu,
        "ddp_find_unused_parameters": False,
        "dataloader_num_workers": 0,
        "dataloader_pin_memory": False,
    }
    if on_cpu and distributed_processes() > 1:
        settings["ddp_backend"] = "gloo"
    if options.fsdp:
        settings["fsdp"] = True
        settings["fsdp_config"] = {"version": 2, "transformer_layer_cls_to_wrap": wrapped}
    if options.deepspeed:
        settings["deepspeed"] = {"gradient_clipping": "auto"} | read_json(Path(options.deepspeed), dict[str, Any])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return TrainingArguments(**settings)
