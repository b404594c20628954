"""`transevolve embed`: writes one vector per text, as an array or a table."""

from dataclasses import dataclass, field
from pathlib import Path

from ..config.command_line import POSITIONAL
from ..core.errors import UserError

FORMATS = (".npy", ".parquet")
VECTOR = "vector"


@dataclass(frozen=True)
class Options:
    """The vector of a text is the mean of the encoder's outputs over its tokens.

    Args:
        run: Folder of a trained model.
        file: A file of texts: one per line, or csv, tsv, jsonl or parquet; plain or gzip.
        output: The file to write: .npy (an array of texts x width, float32) or .parquet (the texts and their vectors).
        column: The column of the texts in such a table; two columns for pairs of texts.
        batch_tokens: Tokens per batch.
        device: Device to compute on: cpu, cuda, cuda:1 ...; by default the first GPU, or the CPU.
    """

    run: str = field(metadata=POSITIONAL)
    file: str = field(metadata=POSITIONAL)
    output: str
    column: list[str] | str | None = None
    batch_tokens: int = 8192
    device: str | None = None


def run(options: Options) -> int:
    output = Path(options.output)
    if output.suffix not in FORMATS or output.is_dir():
        raise UserError(f"--output {output} must be a file that ends in .npy or .parquet")
    import numpy as np

    from ..core.files import atomic_file
    from ..data import iter_texts
    from ..inference import load

    model = load(options.run, options.device, batch_tokens=options.batch_tokens)
    texts = [text for _, text in iter_texts(options.file, options.column or model.columns)]
    vectors = model.embed(texts)
    with atomic_file(output) as file:
        if output.suffix == ".npy":
            np.save(file, vectors)
        else:
            import pyarrow as pa
            import pyarrow.parquet as pq

            width = pa.list_(pa.float32(), vectors.shape[1])
            column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), type=width)
            pq.write_table(pa.table({"text": pa.array(texts, pa.large_string()), VECTOR: column}), file)
    print(f"wrote {output}: {len(texts):,} vectors of width {vectors.shape[1]:,}")
    return 0
