"""How well a classifier does: every row once, by a confusion matrix."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, distributed
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader
from transformers import PreTrainedModel

from ..data.batching import Batches, BatchLoader, Collator, Rows

if TYPE_CHECKING:
    from datasets import Dataset


@dataclass(frozen=True)
class ClassScore:
    label: str
    precision: float
    recall: float
    f1: float
    rows: int


@dataclass(frozen=True)
class Classification:
    """The count of rows by true class (down) and predicted class (across), and the summed loss."""

    confusion: Tensor
    loss_sum: float

    @property
    def rows(self) -> int:
        return int(self.confusion.sum())

    @property
    def accuracy(self) -> float:
        return int(self.confusion.diagonal().sum()) / max(self.rows, 1)

    @property
    def loss(self) -> float:
        return self.loss_sum / max(self.rows, 1)

    def reduced(self, device: torch.device) -> "Classification":
        """The sum over all processes."""
        numbers = torch.cat([self.confusion.flatten().double(), torch.tensor([self.loss_sum]).double()]).to(device)
        distributed.all_reduce(numbers)
        return Classification(numbers[:-1].long().view_as(self.confusion).cpu(), float(numbers[-1]))

    def by_class(self, labels: list[str]) -> list[ClassScore]:
        scores = []
        for number, label in enumerate(labels):
            right = int(self.confusion[number, number])
            predicted, true = int(self.confusion[:, number].sum()), int(self.confusion[number].sum())
            precision, recall = right / max(predicted, 1), right / max(true, 1)
            f1 = 2 * precision * recall / (precision + recall) if right else 0.0
            scores.append(ClassScore(label, precision, recall, f1, true))
        return scores

    def metrics(self, labels: list[str]) -> dict[str, float]:
        present = [score for score in self.by_class(labels) if score.rows]
        f1 = sum(score.f1 for score in present) / max(len(present), 1)
        return {"loss": self.loss, "accuracy": self.accuracy, "macro_f1": f1}


def scoring_loader(
    rows: "Dataset", pad: int, tokens: int, process: int = 0, processes: int = 1, start: int | None = None
) -> BatchLoader:
    """Every row once, dealt out to the processes; the batches do not depend on anything random."""
    batches = Batches(rows["length"][:], tokens=tokens, process=process, processes=processes, shuffle=False)
    return BatchLoader(Rows(rows), batches, Collator(pad, start))


@torch.inference_mode()
def classify(model: PreTrainedModel, loader: DataLoader, classes: int, device: torch.device) -> Classification:
    """Scores the rows of a loader; fillers, whose label is -100, do not count. The model's mode is left as it was."""
    training = model.training
    model.eval()
    confusion = torch.zeros(classes, classes, dtype=torch.int64)
    loss = 0.0
    for batch in loader:
        labels = batch.pop("labels")
        logits = model(**{name: value.to(device) for name, value in batch.items()}).logits.float().cpu()
        real = labels != -100
        loss += float(cross_entropy(logits, labels, reduction="sum", ignore_index=-100))
        pairs = labels[real] * classes + logits.argmax(-1)[real]
        confusion += torch.bincount(pairs, minlength=classes**2).view(classes, classes)
    model.train(training)
    return Classification(confusion, loss)
