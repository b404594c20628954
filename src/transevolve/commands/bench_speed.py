"""`transevolve bench speed`: how fast systems are, side by side."""

from ..bench.speed import SpeedOptions as Options
from ..bench.speed import measure_speed
from ..bench.summary import tokens_per_second
from ..bench.tables import speed_columns, speed_table, write_report

READING = (
    "Times are medians over the repeats, quartiles in brackets. Ratios are of tokens a second, against the eager and"
    " the SDPA Transformer of the same size (@base: of the larger size): the ratio of the medians, and the quartiles"
    " of the ratios in each round."
)


def run(options: Options) -> int:
    results = measure_speed(options)
    title = f"Speed, {options.mode}"
    columns, cells = speed_columns(results), speed_table(results)
    write_report(results, title, columns, cells, READING, tokens_per_second, "tokens per second")
    return 0
