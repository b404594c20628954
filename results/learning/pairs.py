"""What pairs of neighbouring tokens add: linear models, and a bag of vectors trained like the product's head.

    python results/learning/pairs.py --data DATA
    python results/learning/pairs.py --data DATA --task ag_news --rows 64200 --lengths 512

`DATA` holds `{imdb,ag_news}/{train,test}.jsonl.gz` and `imdb/unsup.jsonl.gz`. The first `--rows` training rows train,
the last 5,000 score; the test set is only read to leave its texts out of the unlabelled ones, which AG News has none
of. The bag of vectors is the model without its encoder, with dropout on pooling weights and pairs instead of vectors.
"""

import argparse
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from curves import plain, read
from scipy.sparse import csr_matrix, diags, hstack
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from torch import Tensor, nn
from torch.nn import functional

from transevolve.data.bag_start import BagStart, bag_start
from transevolve.data.tokenizers import train_wordpiece
from transevolve.models.bigrams import BigramWeights
from transevolve.models.start import set_pairs

HELD, VOCAB, WIDTH, BATCH, SLOTS = 5_000, 16_000, 128, 64, 65_536


@dataclass
class Texts:
    """Token ids without special tokens; text i is `ids[offsets[i]:offsets[i + 1]]`."""

    ids: np.ndarray
    offsets: np.ndarray
    labels: np.ndarray

    @property
    def owners(self) -> np.ndarray:
        return np.repeat(np.arange(len(self.labels)), np.diff(self.offsets))


def encoded(data: Path, task: str, train: int, length: int) -> tuple[Texts, list[np.ndarray]]:
    rows = read(data / task / "train.jsonl.gz")
    rows = rows[:train] + rows[-HELD:]
    more = read(data / "imdb" / "unsup.jsonl.gz") if task == "imdb" else []
    tested = {plain(row["text"]) for row in read(data / task / "test.jsonl.gz")}
    tokenizer = train_wordpiece([row["text"] for row in rows], VOCAB, length)
    other = [row["text"] for row in more if plain(row["text"]) not in tested]

    def ids(texts: list[str]) -> Iterator[np.ndarray]:
        for text in texts:
            found = np.array(tokenizer(text, truncation=True, max_length=length)["input_ids"])
            yield found[found > 4]

    labelled = list(ids([row["text"] for row in rows]))
    offsets = np.cumsum([0, *map(len, labelled)])
    labels = np.unique([row["label"] for row in rows], return_inverse=True)[1]
    return Texts(np.concatenate(labelled), offsets, labels), list(ids(other))


def slots_of(texts: Texts, bigrams: BigramWeights) -> np.ndarray:
    """The slot of the pair that ends at each token; SLOTS if the pair is not known."""
    before = np.concatenate([[0], texts.ids[:-1]])
    slots, numbers = bigrams.places(torch.from_numpy(before), torch.from_numpy(texts.ids))
    known = (bigrams.owner[slots] == numbers).numpy()
    known[texts.offsets[:-1]] = False
    return np.where(known, slots.numpy(), SLOTS)


def linear_scores(texts: Texts, slots: np.ndarray) -> Iterator[tuple[str, float]]:
    labels, ones = texts.labels, np.ones(len(slots), dtype=np.float32)
    train, classes = len(labels) - HELD, np.unique(labels)
    single = csr_matrix((ones, (texts.owners, texts.ids)), shape=(len(labels), VOCAB))
    pairs = csr_matrix((ones, (texts.owners, slots)), shape=(len(labels), SLOTS + 1))[:, :SLOTS]
    for name, counts in (("tokens", single), ("tokens and pairs", hstack([single, pairs]).tocsr())):
        counts.sum_duplicates()
        tfidf = TfidfTransformer(sublinear_tf=True).fit(counts[:train]).transform(counts)
        kinds = [("TF-IDF", tfidf, 10)]
        if len(classes) == 2:
            present = (counts > 0).astype(np.float32)
            per_class = [np.asarray(present[:train][labels[:train] == k].sum(0)).ravel() + 1 for k in classes]
            ratio = np.log(per_class[1] / per_class[1].sum()) - np.log(per_class[0] / per_class[0].sum())
            kinds.append(("log ratios", (present @ diags(ratio)).tocsr(), 0.1))
        for kind, features, c in kinds:
            one = LogisticRegression(C=c, max_iter=300, solver="liblinear")
            model = (one if len(classes) == 2 else OneVsRestClassifier(one)).fit(features[:train], labels[:train])
            yield f"logistic regression, {kind} of {name}", float(model.score(features[train:], labels[train:]))


class Bag(nn.Module):
    def __init__(self, start: BagStart, pair_dropout: float = 0.5, token_dropout: float = 0.3):
        super().__init__()
        labels = start.classes.shape[1]
        classes = start.classes / np.exp(start.log_idf)[:, None]
        classes /= math.sqrt((classes[np.abs(start.classes).sum(1) > 0] ** 2).mean())
        vectors = np.concatenate([start.vectors * math.sqrt(WIDTH), classes], axis=1)
        self.embedding = nn.Parameter(torch.from_numpy(vectors.astype(np.float32)))
        self.token_weight = nn.Parameter(torch.from_numpy(start.log_idf))
        self.pairs = nn.Parameter(torch.zeros(SLOTS + 1, labels))
        self.norm, self.head = nn.LayerNorm(WIDTH, eps=1e-6), nn.Linear(WIDTH, labels)
        self.pair_dropout, self.token_dropout = pair_dropout, token_dropout
        with torch.no_grad():
            self.head.bias.zero_()
            self.head.weight.zero_()
            self.head.weight[:, -labels:] = torch.eye(labels)

    def forward(self, ids: Tensor, slots: Tensor, lengths: Tensor) -> Tensor:
        first = lengths.cumsum(0) - lengths
        weight = functional.dropout(self.token_weight[ids].exp(), self.token_dropout, self.training)
        summed = functional.embedding_bag(ids, self.embedding, first, mode="sum", per_sample_weights=weight)
        rows = torch.repeat_interleave(torch.arange(len(lengths)), lengths)
        total = torch.zeros(len(lengths)).index_add(0, rows, weight)
        kept = functional.dropout((slots < SLOTS).float(), self.pair_dropout, self.training)
        pairs = functional.embedding_bag(slots, self.pairs, first, mode="sum", per_sample_weights=kept)
        return self.head(self.norm(summed / total[:, None])) + pairs / lengths.sqrt()[:, None]


def bag_score(texts: Texts, slots: np.ndarray, start: BagStart, epochs: int, pair_rate: float) -> float:
    torch.manual_seed(0)
    model, order = Bag(start), np.random.RandomState(0)
    train, rates = len(texts.labels) - HELD, {"embedding": 0.3, "pairs": pair_rate}
    groups = [
        {"params": [value], "lr": 1e-3 * rates.get(name, 1.0), "weight_decay": 0.01 if value.ndim > 1 else 0.0}
        for name, value in model.named_parameters()
    ]
    optimizer, steps = torch.optim.AdamW(groups), epochs * (train // BATCH)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda s: max(0.0, min(10 * (s + 1) / steps, 1 - s / steps))
    )

    def logits(rows: np.ndarray) -> Tensor:
        places = np.concatenate([np.arange(texts.offsets[row], texts.offsets[row + 1]) for row in rows])
        lengths = torch.from_numpy(texts.offsets[rows + 1] - texts.offsets[rows])
        return model(torch.from_numpy(texts.ids[places]), torch.from_numpy(slots[places]), lengths)

    for _ in range(epochs):
        for rows in order.permutation(train)[: train // BATCH * BATCH].reshape(-1, BATCH):
            functional.cross_entropy(logits(rows), torch.from_numpy(texts.labels[rows])).backward()
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
    model.eval()
    with torch.no_grad():
        held = np.arange(train, len(texts.labels)).reshape(-1, 500)
        right = [(logits(rows).argmax(1).numpy() == texts.labels[rows]).mean() for rows in held]
    return float(np.mean(right))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--task", choices=["imdb", "ag_news"], default="imdb")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--lengths", type=int, nargs="*", default=[512, 1024])
    options = parser.parse_args()
    for length in options.lengths:
        texts, more = encoded(options.data, options.task, options.rows, length)
        last, classes = texts.offsets[options.rows], int(texts.labels.max()) + 1
        start = bag_start(
            texts.ids[:last], texts.offsets[: options.rows + 1], np.eye(classes)[texts.labels[: options.rows]],
            vocab_size=VOCAB,
            width=WIDTH, special=range(5), unlabelled=more, bigrams=SLOTS,
        )  # fmt: skip
        bigrams = BigramWeights(SLOTS, classes, VOCAB)
        set_pairs(bigrams, start.pairs)
        slots = slots_of(texts, bigrams)
        for name, score in linear_scores(texts, slots):
            print(f"{length} | {name} | {100 * score:.1f}", flush=True)
        for epochs, rate in ((3, 0.0), (3, 1.0), (3, 10.0), (3, 30.0), (2, 30.0), (2, 60.0)):
            score = bag_score(texts, slots, start, epochs, rate)
            print(f"{length} | bag of vectors, {epochs} epochs, pairs at {rate:g} | {100 * score:.1f}", flush=True)


if __name__ == "__main__":
    main()
