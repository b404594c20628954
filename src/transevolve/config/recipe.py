"""A recipe as a typed tree: the keys under `--data.*`, `--model.*` and `--training.*`."""

from dataclasses import dataclass, field, fields, make_dataclass
from typing import Any, Literal, get_type_hints

from ..core.settings import Range, setting
from ..data.options import DataOptions
from ..models.settings import ModelSettings

FROM_DATA = ("vocab_size", "max_position_embeddings", "type_vocab_size", "sep_token_id")
COUNT, SOME = Range(0, 2**40), Range(1, 2**40)
DECAY, RATE = Range(0, 1, below=True), Range(0, 1e30)
BEAMS = Range(1, 2**12)


def _optional_settings() -> Any:
    """Every setting of TransEvolve that the data does not decide; None is the default of the variant."""
    kinds = get_type_hints(ModelSettings)
    declared = [f for f in fields(ModelSettings) if f.name not in FROM_DATA]
    return make_dataclass(
        "OptionalSettings",
        [(f.name, kinds[f.name] | None, field(default=None, metadata=f.metadata)) for f in declared],
    )


@dataclass
class SystemOptions:
    """Which model."""

    system: str = setting(
        "transevolve", "transevolve, or a system to compare with: see `transevolve systems`; marian for translation."
    )
    variant: Literal["randomFF-1", "randomFF-2", "fullFF-1", "fullFF-2"] | None = setting(
        None, "Variant of TransEvolve; fullFF-1 by default."
    )
    start: str | None = setting(
        None,
        "A run, or a folder with a saved model, to start from: its tokenizer, sizes and encoder weights.",
    )
    size: Literal["small", "base"] | None = setting(
        None, "The paper's small (width 256) or base (width 512); by default the rows of a text classifier decide."
    )
    initialization: Literal["bag", "small", "authors"] | None = setting(
        None,
        "bag (the model starts as a bag of word vectors), small (matrices of deviation 0.02) or authors (the paper's);"
        " by default bag for texts and classes, authors where a variant is named in translation, and small elsewhere.",
    )
    vectors: str | None = setting(
        None, "A file of word vectors to start from, in the text format of word2vec, GloVe or fastText."
    )


@dataclass
class ModelOptions(_optional_settings(), SystemOptions):
    """The model. Without a value, the variant or system decides."""

    settings: dict[str, int | float | bool | str] | None = setting(
        None, "Settings that only one of the other systems has, such as {features: 128}."
    )


@dataclass
class TrainingOptions:
    """How to train."""

    epochs: float | None = setting(
        None, "Passes over the training rows; by default 10, or by the number of rows.", Range(0, 1e6, above=True)
    )
    max_steps: int | None = setting(None, "Stop after this many steps instead of after the epochs.", SOME)
    batch_size: int | None = setting(None, "Rows per batch, over all processes.", SOME)
    batch_tokens: int | None = setting(
        None, "Tokens per batch including padding, over all processes, instead of batch_size.", SOME
    )
    accumulation: int | None = setting(None, "Parts to split a batch into; 1, or what memory asks for.", SOME)
    memory: str | None = setting(
        None, "Largest memory of a step, such as 4GB; batches are split into as many parts as that takes."
    )
    schedule: str = setting(
        "linear", "linear, cosine, constant, or paper: lr_max / sqrt(d) * min(step^-0.5, step * warmup^-1.5)."
    )
    optimizer: str = setting("adamw", "adamw.")
    lr_max: float = setting(1.0, "Height of the paper's schedule.", RATE)
    learning_rate: float | None = setting(None, "Peak of the other schedules; 0.001.", RATE)
    encoder_rate: float | None = setting(
        None, "Learning rate of the encoder, as a multiple of that of the head; 1, or less from a bag of words.", RATE
    )
    embedding_rate: float | None = setting(None, "Learning rate of the token vectors, likewise.", RATE)
    warmup: float = setting(
        0.1, "Steps of linear warm-up; below 1, a share of all steps (not for the paper's schedule).", Range(0, 1e12)
    )
    beta1: float = setting(0.9, "Adam's first decay.", DECAY)
    beta2: float | None = setting(None, "Adam's second decay; 0.999, or 0.98 for translation.", DECAY)
    eps: float | None = setting(None, "Adam's epsilon; 1e-8, or 1e-9 for translation.", Range(0, 1, above=True))
    weight_decay: float | None = setting(
        None, "Decoupled weight decay on matrices; 0, or 0.01 from a bag of words.", Range(0, 1e6)
    )
    clip: float = setting(0.0, "Largest norm of the gradient; 0 does not clip, as in the paper.", RATE)
    precision: Literal["fp32", "bf16", "auto"] = setting(
        "fp32", "fp32, bf16 (mixed), or auto: bf16 where the CPU or GPU has instructions for it."
    )
    compile: bool = setting(False, "Compile the model with torch.compile.")
    gradient_checkpointing: bool = setting(False, "Recompute activations in the backward pass to save memory.")
    seed: int = setting(0, "Seed of initial weights, row order and dropout.", Range(0, 2**32 - 1))
    mask_share: float = setting(
        0.15, "Share of the tokens that a masked language model predicts.", Range(0, 1, above=True, below=True)
    )
    select: str | None = setting(
        None,
        "Metric that selects the model on validation: accuracy, loss or macro_f1; in multilabel micro_f1, macro_f1,"
        " exact_match or loss; in tokens f1, precision, recall, accuracy or loss; in translation bleu, loss or chrf;"
        " in language models loss, perplexity or accuracy; in regression mse, mae, r2, pearson, spearman or loss.",
    )
    class_weights: Literal["balanced"] | None = setting(
        None, "balanced weighs rows so that every class counts the same in the loss, however rare it is."
    )
    patience: int = setting(0, "Stop after this many validations without improvement; 0 never does.", COUNT)
    refit: bool | None = setting(
        None,
        "After validation, train a second time on all rows, those of validation too; by default where there are few"
        " rows and the number of epochs is left open.",
    )
    self_training: bool = setting(
        False,
        "After training, label the texts of data.unlabelled that the classifier is sure of, and train again with them;"
        " the model that validates better is kept.",
    )
    yardstick: bool = setting(True, "Score a bag of words on the same rows, to compare with.")
    eval_steps: int = setting(0, "Steps between validations; 0 validates after every epoch.", COUNT)
    save_steps: int = setting(0, "Steps between checkpoints; 0 saves after every epoch.", COUNT)
    keep: int = setting(2, "Newest checkpoints to keep besides the best one.", SOME)
    log_steps: int = setting(20, "Steps between lines of metrics.", SOME)
    eval_tokens: int = setting(16384, "Tokens per batch when scoring.", SOME)
    eval_beams: int = setting(1, "Beams when validating a translation.", BEAMS)
    eval_sentences: int = setting(
        500, "Sentences to decode when validating a translation during training; 0 decodes all.", COUNT
    )
    beams: int = setting(4, "Beams when scoring the selected translation model.", BEAMS)
    extra_length: int = setting(50, "Tokens by which a translation may be longer than its source.", Range(1, 2**16))
    workers: int = setting(0, "Processes that prepare batches.", Range(0, 2**10))
    threads: int = setting(0, "Threads to compute with; 0 leaves it to PyTorch.", Range(0, 2**12))
    tensorboard: bool = setting(False, "Write TensorBoard files too, into `tensorboard` in the run folder.")
    fsdp: bool = setting(False, "Shard the model over processes (FSDP2).")
    deepspeed: str | None = setting(None, "A DeepSpeed configuration file.")


@dataclass
class Recipe:
    """One training: its data, its model, how to train, and the folder of the run."""

    data: DataOptions = field(default_factory=DataOptions)
    model: ModelOptions = field(default_factory=ModelOptions)
    training: TrainingOptions = field(default_factory=TrainingOptions)
    output: str | None = setting(None, "Folder of the run.")
