"""Finds the largest batch size within a memory budget, before timing."""

from collections.abc import Callable

from .cell import Cell
from .options import BenchOptions
from .probe import Peak, peak_of
from .results import Row
from .systems import Spec, backend_at


def planned_row(spec: Spec, options: BenchOptions, length: int, *, probe: bool) -> Row:
    """A row with its batch size. Memory is measured if `probe` or if there is a budget; a note reports an excess."""
    row = Row(spec.text, spec.backend, spec.size, length)
    budget = options.budget()
    peaks: dict[int, Peak] = {}

    def peak(batch: int) -> int | None:
        peaks[batch] = peak_of(Cell.of(spec, options, length, batch))
        return peaks[batch].bytes

    if options.batch == "max":
        assert budget is not None
        row.batch = max(largest_batch(peak, budget), 1)
    else:
        row.batch = options.batch_size(length)
        if probe or budget is not None:
            peak(row.batch)
    row.backend = backend_at(spec, length, row.batch, options.device, options.precision)
    if row.batch in peaks:
        _fill(row, peaks[row.batch], budget)
    return row


def _fill(row: Row, peak: Peak, budget: int | None) -> None:
    row.parameters, row.features = peak.parameters, peak.features
    row.peak_bytes, row.peak_counted_by = peak.bytes, peak.counted_by
    row.note = peak.error
    if peak.bytes is not None and budget is not None and peak.bytes > budget:
        row.note = f"needs {peak.bytes / 1e6:,.0f} MB, over the budget of {budget / 1e6:,.0f} MB"


def largest_batch(peak: Callable[[int], int | None], budget: int) -> int:
    """The largest batch size whose peak is within the budget, or 0; `peak` returns None if a batch cannot run.

    Peaks are almost linear in the batch size: guesses interpolate linearly between the last two, and
    every third guess bisects. A batch that cannot run counts as twice the budget.
    """
    first = peak(1)
    if first is None or first > budget:
        return 0
    low, low_peak, high, slope, guesses = 1, first, None, max(float(first), 1.0), 0
    while high is None or high - low > 1:
        guesses += 1
        crossing = max(1, int((budget - low_peak) / slope))
        if high is None:
            guess = low + min(crossing, 7 * low)
        else:
            guess = (low + high) // 2 if guesses % 3 == 0 else low + min(crossing, high - low - 1)
        found = peak(guess)
        if found is None:
            slope = 2 * (budget - low_peak) / (guess - low) + 1
        else:
            slope = max((found - low_peak) / (guess - low), 1.0)
        if found is None or found > budget:
            high = guess
        else:
            low, low_peak = guess, found
    return low
