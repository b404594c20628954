"""`transevolve average`: averages the last checkpoints of a run into a new run folder."""

from dataclasses import dataclass, field
from pathlib import Path

from ..config.command_line import POSITIONAL
from ..core.errors import UserError


@dataclass(frozen=True)
class Options:
    """Average weights or scores; the paper averages ten checkpoints without stating which.

    Args:
        run: Folder of a training with several checkpoints (training.save_steps, training.keep).
        last: The number of newest checkpoints to average.
        output: Folder of the average; by default the run's, with -average-N.
        scores: Do not average weights; score each checkpoint on this split and show the mean score.
        data: Where the data are, if they have moved since training (with --scores).
    """

    run: str = field(metadata=POSITIONAL)
    last: int = 10
    output: str | None = None
    scores: str | None = None
    data: str | None = None


def run(options: Options) -> int:
    folder = Path(options.run)
    if options.last < 1:
        raise UserError(f"--last must be at least 1, not {options.last}")
    if options.scores is not None:
        return _mean_of_scores(folder, options)
    from ..runs.averaging import average

    output = Path(options.output or f"{str(folder).rstrip('/')}-average-{options.last}")
    steps = average(folder, options.last, output)
    print(f"wrote {output}: the mean of the weights of steps {', '.join(map(str, steps))}")
    return 0


def _mean_of_scores(folder: Path, options: Options) -> int:
    import statistics

    from ..core.tables import show
    from ..inference.run import score_checkpoints

    if options.scores not in ("validation", "test"):
        raise UserError(f"--scores must be validation or test, not {options.scores!r}")
    found = score_checkpoints(folder, options.last, options.scores, options.data)
    names = list(found[0][1])
    rows = [[str(step), *(f"{metrics[name]:.4f}" for name in names)] for step, metrics in found]
    means = {name: statistics.fmean(metrics[name] for _, metrics in found) for name in names}
    rows.append(["mean", *(f"{means[name]:.4f}" for name in names)])
    show(f"{folder}: the last {options.last} checkpoints on {options.scores}", ["step", *names], rows)
    return 0
