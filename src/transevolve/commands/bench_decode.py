"""`transevolve bench decode`: how fast translation decodes, cached, uncached, and against Marian."""

from ..bench.decode import MARIAN, WAYS, DecodeRow, measure_decode, ratio
from ..bench.decode import DecodeOptions as Options
from ..bench.summary import Spread, spread, tokens_per_second
from ..core.files import write_atomically
from ..core.tables import markdown, show

COLUMNS = [
    "system",
    "backend",
    "way",
    "parameters",
    "seconds",
    "tokens/s",
    "speed / marian generate",
    "by CPU time",
    "speed / uncached",
    "self cache MB",
    "cross cache MB",
    "cache / marian",
]
READING = (
    "Seconds are medians over the repeats, quartiles in brackets, the encoder included. Tokens are those of the best"
    " hypothesis. Ratios are of tokens a second: the ratio of the medians, and the quartiles of the ratios in each"
    " round; by CPU time, other work on the machine disturbs them less. Caches are compared in the same way. Ways: "
    + "; ".join(f"{way}: {meaning}" for way, meaning in WAYS.items())
    + "."
)


def run(options: Options) -> int:
    results = measure_decode(options)
    rows = [row for row in results.rows if isinstance(row, DecodeRow)]
    title = f"Decoding, {options.size}, {options.batch} sentences, {options.beams} beams, {options.new_tokens} tokens"
    cells = [_cells(row, rows) for row in rows]
    show(title, COLUMNS, cells)
    page = options.path.with_suffix(".md")
    write_atomically(page, markdown(title, results.header, COLUMNS, cells, READING))
    print(f"wrote {results.path}, {page.name}")
    return 0


def _cells(row: DecodeRow, rows: list[DecodeRow]) -> list[str]:
    marian, uncached = _find(rows, MARIAN, "generate"), _find(rows, row.system, "uncached")
    same = _find(rows, MARIAN, row.way)
    return [
        row.system,
        row.backend,
        row.way,
        f"{(row.parameters or 0) / 1e6:.1f}M",
        _ranged(spread(row.seconds)),
        f"{tokens_per_second(row):,.1f}",
        "" if marian is None else _ranged(ratio(row, marian)),
        "" if marian is None else _ranged(ratio(row, marian, cpu=True)),
        "" if uncached is None else _ranged(ratio(row, uncached)),
        _megabytes(row.self_bytes),
        _megabytes(row.cross_bytes),
        "" if same is None or row.self_bytes is None else f"{_total(row) / _total(same):.2f}",
    ]


def _find(rows: list[DecodeRow], system: str, way: str) -> DecodeRow | None:
    return next((row for row in rows if (row.system, row.way) == (system, way)), None)


def _total(row: DecodeRow) -> int:
    return (row.self_bytes or 0) + (row.cross_bytes or 0)


def _megabytes(count: int | None) -> str:
    return "" if count is None else f"{count / 1e6:,.1f}"


def _ranged(value: Spread) -> str:
    return f"{value.middle:.2f} ({value.low:.2f}-{value.high:.2f})"
