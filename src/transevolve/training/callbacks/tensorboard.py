"""TensorBoard files in the run folder."""

from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments


def tensorboard(folder: Path) -> TrainerCallback:
    """Hugging Face's callback; steps that a killed run wrote after its last checkpoint are dropped."""
    from torch.utils.tensorboard import SummaryWriter
    from transformers.integrations.integration_utils import TensorBoardCallback

    class Writer(TensorBoardCallback):
        def on_train_begin(
            self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
        ) -> None:
            """Do nothing, so that a run that fails before its first step leaves no files."""

        def on_step_end(
            self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
        ) -> None:
            if self.tb_writer is None:
                self.tb_writer = SummaryWriter(str(folder), purge_step=state.global_step)
                super().on_train_begin(args, state, control, **kwargs)

    return Writer()
