"""The settings of a recipe: the keys under `--data.*`, `--model.*` and `--training.*`."""

from dataclasses import dataclass, field, fields, make_dataclass
from typing import Any, Literal, get_type_hints

from ..core.settings import Range, setting
from ..data.options import DataOptions
from ..models.settings import DEFAULT_VARIANT, ModelSettings

OURS, MARIAN = "transevolve", "marian"
FROM_DATA = ("vocab_size", "max_position_embeddings", "type_vocab_size", "sep_token_id")
NON_NEGATIVE, POSITIVE = Range(0, 2**40), Range(1, 2**40)
DECAY, RATE = Range(0, 1, below=True), Range(0, 1e30)
BEAMS = Range(1, 2**12)


def _optional_settings() -> Any:
    """Returns the settings of TransEvolve that are not derived from the data; None is the default of the variant."""
    kinds = get_type_hints(ModelSettings)
    declared = [f for f in fields(ModelSettings) if f.name not in FROM_DATA]
    return make_dataclass(
        "OptionalSettings",
        [(f.name, kinds[f.name] | None, field(default=None, metadata=f.metadata)) for f in declared],
    )


@dataclass
class SystemOptions:
    """Which model to train."""

    system: str = setting(OURS, "transevolve, or another system (see `transevolve systems`); marian for translation.")
    variant: Literal["randomFF-1", "randomFF-2", "fullFF-1", "fullFF-2"] | None = setting(
        None, "Variant of TransEvolve; fullFF-1 by default."
    )
    start: str | None = setting(
        None, "Run or saved model to start from: its tokenizer, sizes and encoder weights are used."
    )
    size: Literal["small", "base"] | None = setting(
        None,
        "The paper's small (width 256) or base (width 512); for a text classifier the default depends on the number of"
        " rows.",
    )
    initialization: Literal["bag", "small", "authors"] | None = setting(
        None,
        "bag (the model starts as a bag of word vectors), small (matrices with standard deviation 0.02) or authors (the"
        " paper's); by default bag for texts with classes, authors for translation with a variant, else small.",
    )
    vectors: str | None = setting(
        None, "File of pretrained word vectors, in the text format of word2vec, GloVe or fastText."
    )

    @property
    def is_ours(self) -> bool:
        return self.system == OURS

    @property
    def label(self) -> str:
        """The variant of TransEvolve, or the name of another system."""
        return (self.variant or DEFAULT_VARIANT) if self.is_ours else self.system


@dataclass
class ModelOptions(_optional_settings(), SystemOptions):
    """The model. The defaults depend on the variant or system."""

    settings: dict[str, int | float | bool | str] | None = setting(
        None, "Settings specific to another system, such as {features: 128}."
    )


@dataclass
class TrainingOptions:
    """How to train."""

    epochs: float | None = setting(
        None,
        "Passes over the training rows; the default is 10, or depends on the number of rows.",
        Range(0, 1e6, above=True),
    )
    max_steps: int | None = setting(None, "Stop after this many steps, instead of epochs.", POSITIVE)
    batch_size: int | None = setting(
        None, "Rows per batch, over all processes; with a bag of words 32 or 64 by default.", POSITIVE
    )
    batch_tokens: int | None = setting(
        None, "Tokens per batch including padding, over all processes, instead of batch_size.", POSITIVE
    )
    accumulation: int | None = setting(
        None, "Parts to split a batch into; by default 1, or as many as the memory limit requires.", POSITIVE
    )
    memory: str | None = setting(
        None, "Memory limit of a step, such as 4GB; batches are split into parts to stay below it."
    )
    schedule: str = setting(
        "linear", "linear, cosine, constant, or paper: lr_max / sqrt(d) * min(step^-0.5, step * warmup^-1.5)."
    )
    optimizer: str = setting("adamw", "adamw.")
    lr_max: float = setting(1.0, "Factor of the paper's schedule.", RATE)
    learning_rate: float | None = setting(None, "Peak of the other schedules; by default 0.001.", RATE)
    encoder_rate: float | None = setting(
        None, "Learning rate of the encoder relative to the head; by default 1, or less with a bag of words.", RATE
    )
    embedding_rate: float | None = setting(None, "Learning rate of the token vectors relative to the head.", RATE)
    warmup: float = setting(
        0.1,
        "Steps of linear warm-up; below 1, a fraction of all steps (not for the paper's schedule).",
        Range(0, 1e12),
    )
    beta1: float = setting(0.9, "Adam's beta1.", DECAY)
    beta2: float | None = setting(None, "Adam's beta2; by default 0.999, or 0.98 for translation.", DECAY)
    eps: float | None = setting(
        None, "Adam's epsilon; by default 1e-8, or 1e-9 for translation.", Range(0, 1, above=True)
    )
    weight_decay: float | None = setting(
        None, "Decoupled weight decay of matrices; by default 0, or 0.01 with a bag of words.", Range(0, 1e6)
    )
    clip: float = setting(0.0, "Maximum gradient norm; 0 disables clipping, as in the paper.", RATE)
    precision: Literal["fp32", "bf16", "auto"] = setting(
        "auto", "fp32, bf16 (mixed), or auto: bf16 if the CPU or GPU has instructions for it."
    )
    compile: bool = setting(False, "Compile the model with torch.compile.")
    gradient_checkpointing: bool = setting(False, "Recompute activations in the backward pass to save memory.")
    seed: int = setting(0, "Seed of initial weights, row order and dropout.", Range(0, 2**32 - 1))
    mask_share: float = setting(
        0.15, "Fraction of the tokens that a masked language model predicts.", Range(0, 1, above=True, below=True)
    )
    select: str | None = setting(
        None,
        "Metric that selects the model on validation: accuracy, loss or macro_f1; in multilabel micro_f1, macro_f1,"
        " exact_match or loss; in tokens f1, precision, recall, accuracy or loss; in translation bleu, loss or chrf;"
        " in language models loss, perplexity or accuracy; in regression mse, mae, r2, pearson, spearman or loss.",
    )
    class_weights: Literal["balanced"] | None = setting(
        None, "balanced weights rows so that every class contributes equally to the loss."
    )
    patience: int | None = setting(
        None,
        "Stop after this many validations without improvement; 0 disables early stopping. Default: 0; if epochs is not"
        " set, 5 for pairs of texts, 3 for token labels and with model.start.",
        NON_NEGATIVE,
    )
    refit: bool | None = setting(
        None,
        "After validation, train a second time on all rows, including validation; by default if there are few rows and"
        " epochs is not set.",
    )
    self_training: bool = setting(
        False,
        "After training, label the texts of data.unlabelled for which the classifier is confident, and train again with"
        " them; the model with the better validation score is kept.",
    )
    yardstick: bool = setting(True, "Score a bag of words on the same rows for comparison.")
    eval_steps: int = setting(0, "Steps between validations; 0 validates after every epoch.", NON_NEGATIVE)
    save_steps: int = setting(0, "Steps between checkpoints; 0 saves after every epoch.", NON_NEGATIVE)
    keep: int = setting(2, "Number of newest checkpoints to keep, in addition to the best one.", POSITIVE)
    average: int = setting(
        0,
        "After training, average the weights of this many newest checkpoints, and keep the average if it scores better"
        " on validation.",
        NON_NEGATIVE,
    )
    log_steps: int = setting(20, "Steps between logged metrics.", POSITIVE)
    eval_tokens: int = setting(16384, "Tokens per batch when scoring.", POSITIVE)
    eval_beams: int = setting(1, "Beams when validating a translation.", BEAMS)
    eval_sentences: int = setting(
        500, "Sentences to decode when validating a translation during training; 0 decodes all.", NON_NEGATIVE
    )
    beams: int = setting(4, "Beams when scoring the selected translation model.", BEAMS)
    extra_length: int = setting(50, "Tokens that a translation may be longer than its source.", Range(1, 2**16))
    workers: int = setting(0, "Worker processes that prepare batches.", Range(0, 2**10))
    threads: int = setting(0, "CPU threads; 0 is PyTorch's default.", Range(0, 2**12))
    tensorboard: bool = setting(False, "Also write TensorBoard files, to `tensorboard` in the run folder.")
    fsdp: bool = setting(False, "Shard the model over processes (FSDP2).")
    deepspeed: str | None = setting(None, "A DeepSpeed configuration file.")


@dataclass
class Recipe:
    """The settings of a run: data, model, training and output folder."""

    data: DataOptions = field(default_factory=DataOptions)
    model: ModelOptions = field(default_factory=ModelOptions)
    training: TrainingOptions = field(default_factory=TrainingOptions)
    output: str | None = setting(None, "Folder of the run.")

    def get(self, key: str) -> Any:
        """The value of a dotted key, such as `training.epochs`."""
        section, name = key.split(".")
        return getattr(getattr(self, section), name)

    def set_default(self, key: str, value: Any) -> bool:
        """Sets a dotted key unless it has a value; returns whether it was set."""
        if self.get(key) is not None:
            return False
        section, name = key.split(".")
        setattr(getattr(self, section), name, value)
        return True
