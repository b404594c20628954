"""What the user says about the model and its training: the keys under `--model.*` and `--training.*`."""

from dataclasses import dataclass, field
from typing import Any, Literal

from ..data import DataOptions


@dataclass
class ModelOptions:
    """The model. None means the variant's or the system's own value.

    Args:
        system: transevolve, or another system to compare with; `transevolve systems` lists them; marian to translate.
        variant: randomFF-1, randomFF-2, fullFF-1 (the default) or fullFF-2, of TransEvolve.
        size: The paper's small (width 256) or base (width 512).
        attention: How TransEvolve computes attention: auto, once, fused, linear or literal.
        evolution: keys (the paper's) or none (one attention for all depths of a block).
        hidden_size: Width d.
        num_attention_heads: Heads.
        intermediate_size: Width of the feed-forward.
        num_blocks: Blocks of TransEvolve, each with an initial condition of its own.
        block_depth: Depths of a block; for other systems, num_blocks * block_depth is the number of layers.
        dropout: Dropout inside the blocks.
        embedding_dropout: Dropout on the embedded tokens.
        label_smoothing: Probability that the target spreads over the other tokens; 0.1 in translation.
        row_operators: Carry the paper's operators that cancel in the softmax, to match its parameter counts.
        convention: paper, or reference (the authors' released code).
        rotation_init: unit (output as large as the input) or reference (the authors', almost zero), of randomFF.
        rotation_seed: Draws the rotations of randomFF.
        initializer_range: Deviation of every learned matrix at the start; None is the authors' initialisation.
        num_features: Random features of a head, under attention linear.
        feature_map: positive or elu, under attention linear.
        feature_redraw_interval: Training passes after which features are drawn anew; 0 is never.
        settings: Settings of another system, such as {features: 128}.
    """

    system: str = "transevolve"
    variant: str | None = None
    size: Literal["small", "base"] = "small"
    attention: str | None = None
    evolution: Literal["keys", "none"] | None = None
    hidden_size: int | None = None
    num_attention_heads: int | None = None
    intermediate_size: int | None = None
    num_blocks: int | None = None
    block_depth: int | None = None
    dropout: float | None = None
    embedding_dropout: float | None = None
    label_smoothing: float | None = None
    row_operators: bool | None = None
    convention: Literal["paper", "reference"] | None = None
    rotation_init: Literal["unit", "reference"] | None = None
    rotation_seed: int | None = None
    initializer_range: float | None = None
    num_features: int | None = None
    feature_map: Literal["positive", "elu"] | None = None
    feature_redraw_interval: int | None = None
    settings: dict[str, Any] | None = None


@dataclass
class TrainingOptions:
    """How to train.

    Args:
        epochs: Passes over the training rows.
        max_steps: Stop after this many steps, instead of after some epochs.
        batch_size: Rows of a batch, over all processes.
        batch_tokens: Tokens of a batch with its padding, over all processes, instead of batch_size.
        accumulation: Parts a batch is worked through in; None is 1, or what memory asks for.
        memory: Largest memory of a step, such as 4GB; batches are worked through in as many parts as that takes.
        schedule: paper (lr_max / sqrt(d) * min(step^-0.5, step * warmup^-1.5)), linear or cosine (both down to 0), or
            constant.
        optimizer: adamw.
        lr_max: Height of the paper's schedule.
        learning_rate: Peak of the other schedules.
        warmup: Steps of linear warm-up; below 1 it is a share of all steps (not for the paper's schedule).
        beta1: Adam's first decay.
        beta2: Adam's second decay; 0.999, in translation 0.98.
        eps: Adam's epsilon; 1e-8, in translation 1e-9.
        weight_decay: Decoupled weight decay on matrices.
        clip: Largest norm of the gradient; 0 does not clip, as in the paper.
        precision: fp32, or bf16 (mixed).
        compile: Compile the model with torch.compile.
        gradient_checkpointing: Compute activations again in the backward pass to save memory.
        seed: Initial weights, order of the rows, dropout.
        select: The metric that selects the model on validation: accuracy, loss or macro_f1; in translation bleu, loss
            or chrf; in regression mse, mae, r2, pearson, spearman or loss.
        patience: Stop after this many validations without improvement; 0 never does.
        eval_steps: Validate every so many steps; 0 is after every epoch.
        save_steps: Write a checkpoint every so many steps; 0 is after every epoch.
        keep: Newest checkpoints to keep, besides the best one.
        log_steps: Write a line of metrics every so many steps.
        eval_tokens: Tokens of a batch when scoring.
        eval_beams: Beams when validating a translation.
        eval_sentences: Sentences to decode when validating a translation during training; 0 is all.
        beams: Beams when scoring the selected translation model.
        extra_length: How many tokens longer than its source a translation may be.
        workers: Processes that prepare batches.
        threads: Threads to compute with; 0 leaves it to PyTorch.
        tensorboard: Write TensorBoard's files too, into the run's folder `tensorboard`.
        fsdp: Shard the model over processes (FSDP2).
        deepspeed: A DeepSpeed configuration file.
    """

    epochs: float = 10.0
    max_steps: int | None = None
    batch_size: int | None = None
    batch_tokens: int | None = None
    accumulation: int | None = None
    memory: str | None = None
    schedule: str = "linear"
    optimizer: str = "adamw"
    lr_max: float = 1.0
    learning_rate: float = 1e-3
    warmup: float = 0.1
    beta1: float = 0.9
    beta2: float | None = None
    eps: float | None = None
    weight_decay: float = 0.0
    clip: float = 0.0
    precision: Literal["fp32", "bf16"] = "fp32"
    compile: bool = False
    gradient_checkpointing: bool = False
    seed: int = 0
    select: str | None = None
    patience: int = 0
    eval_steps: int = 0
    save_steps: int = 0
    keep: int = 2
    log_steps: int = 20
    eval_tokens: int = 16384
    eval_beams: int = 1
    eval_sentences: int = 500
    beams: int = 4
    extra_length: int = 50
    workers: int = 0
    threads: int = 0
    tensorboard: bool = False
    fsdp: bool = False
    deepspeed: str | None = None


@dataclass
class Recipe:
    """One training: its data, its model, how to train, and the folder it goes to.

    Args:
        data: The data to learn from.
        model: The model.
        training: How to train.
        output: Folder of the run.
    """

    data: DataOptions = field(default_factory=DataOptions)
    model: ModelOptions = field(default_factory=ModelOptions)
    training: TrainingOptions = field(default_factory=TrainingOptions)
    output: str | None = None
