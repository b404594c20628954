"""What a text classifier learns with unless the user says otherwise, by its rows, their length and its classes.

Each number stands beside the measurement behind it: accuracy in percent on 7,600 AG News rows that take no part in
training (development rows, not the test set), mean of three samples of 1,000 training rows unless it says otherwise.
"""

import math
from dataclasses import dataclass, field

from ..models.start import small_range

SMALL, LARGE = 20_000, 200_000


@dataclass(frozen=True)
class Learning:
    """Defaults of a text classifier; every field is a setting of the same name under model, training or data.

    Attributes:
        hidden_size: Width. Wider vectors need more text than a small file has.
        num_attention_heads: Heads.
        intermediate_size: Width of the feed-forward.
        num_blocks: Blocks.
        block_depth: Depths of a block.
        initializer_range: Deviation of learned matrices at the start.
        position_scale: Positions are a tenth of the token vectors, which they would otherwise blur.
        pooling: Weighted by exp(w[token]), w from document frequencies. log idf 84.32, its square root 84.35.
        drop_unseen: Tokens of no training text are left out of a prediction.
        class_scale: Size of the naive-Bayes dimensions. 0.5: 83.83, 1: 84.32, 2: 84.46.
        head_scale: The head starts by reading those dimensions. With it 84.76, from a random head 84.32.
        embedding_dropout: Dropout on token vectors.
        dropout: Dropout inside the blocks.
        vocab_size: Word pieces. Naive Bayes on pieces of 4,000: 82.7, 8,000: 83.4, 16,000: 84.6; on whole words 85.1.
        learning_rate: Peak rate of the head; 1e-3 from the naive-Bayes head.
        rates: Factors of that rate. Embedding 0.05: 84.32, 0.2: 84.44.
        weight_decay: Decay of matrices.
        batch_size: Rows of a batch.
        epochs: Passes over the rows.
        patience: Validations without improvement before training stops.
        refit: Train on all rows, validation included, after the settings are chosen.
    """

    hidden_size: int
    num_attention_heads: int
    intermediate_size: int
    num_blocks: int
    block_depth: int
    initializer_range: float
    vocab_size: int
    max_length: int
    batch_size: int
    epochs: int
    patience: int
    refit: bool
    embedding_dropout: float
    dropout: float
    learning_rate: float = 1e-3
    weight_decay: float = 0.01
    position_scale: float = 0.1
    pooling: str = "weighted"
    drop_unseen: bool = True
    class_scale: float = 1.0
    head_scale: float = 1.0
    rates: dict[str, float] = field(default_factory=lambda: {"encoder": 0.05, "embedding": 0.05, "pooling": 1.0})


def learning_defaults(rows: int, mean_length: float, classes: int) -> Learning:
    """Settings for `rows` training rows of `mean_length` tokens on average, in `classes` classes.

    Only the column of few rows of short text is measured; the growth with rows and length is a rule of thumb.
    """
    few = rows < SMALL
    width = 128 if few else 256
    while width < 2 * classes and width < 1024:
        width *= 2
    return Learning(
        hidden_size=width,
        num_attention_heads=width // 32,
        intermediate_size=4 * width,
        num_blocks=1,
        block_depth=2 if few else 4 if rows < LARGE else 6,
        initializer_range=small_range(width),
        vocab_size=16_000 if few else 30_000,
        max_length=_power_of_two(4 * mean_length, 64, 512),
        batch_size=32 if few else 64,
        epochs=5 if few else 3,
        patience=3,
        refit=rows < SMALL,
        embedding_dropout=0.5 if few else 0.3,
        dropout=0.3 if few else 0.1,
    )


def _power_of_two(value: float, least: int, most: int) -> int:
    return min(most, max(least, 2 ** math.ceil(math.log2(max(value, 1)))))
