"""Error of the `linear` backend against its number of random features: a table and a plot.

python examples/features.py [--output FOLDER]
"""

import argparse
import json
from pathlib import Path

import matplotlib
import torch
from rich.console import Console
from rich.table import Table

matplotlib.use("Agg")
from matplotlib import pyplot as plt

from transevolve import EvolvedAttention
from transevolve.evolution.backends import LinearBackend

FEATURES = [8, 16, 32, 64, 128, 256, 512]
SCALES = {"scores of a new model": 1.0, "scores / 4": 0.25, "scores / 10": 0.1}


def error(features: int, scale: float, n: int = 256, draws: int = 4) -> float:
    """Relative root mean square error of attention outputs to `literal`, mean over depths and draws."""
    errors = []
    for seed in range(draws):
        torch.manual_seed(0)
        layer = EvolvedAttention(256, 8, 6, backend=LinearBackend(features=features, feature_seed=seed)).eval()
        with torch.no_grad():
            layer.query.weight.mul_(scale**0.5)
            layer.key.weight.mul_(scale**0.5)
            x = torch.randn(1, n, 256)
            values = torch.randn(1, 8, n, 32)
            exact, found = (layer.begin(x, backend=name).evolution for name in ("literal", "linear"))
            pairs = [(exact.mix(values, l), found.mix(values, l)) for l in range(1, 7)]
            errors += [float((a - b).norm() / a.norm()) for a, b in pairs]
    return sum(errors) / len(errors)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("demo"))
    parser.add_argument("--features", type=int, nargs="+", default=FEATURES)
    arguments = parser.parse_args()
    errors = {name: [error(m, scale) for m in arguments.features] for name, scale in SCALES.items()}
    table = Table(title="Relative error of `linear` against `literal`, mean over depths and draws")
    for column in ("features per head", *errors):
        table.add_column(column, justify="right")
    for i, m in enumerate(arguments.features):
        table.add_row(str(m), *(f"{values[i]:.3f}" for values in errors.values()))
    Console().print(table)
    arguments.output.mkdir(parents=True, exist_ok=True)
    (arguments.output / "linear-error.json").write_text(
        json.dumps({"features": arguments.features, "error": errors}, indent=1)
    )
    figure, axes = plt.subplots(figsize=(6.5, 4.2), layout="constrained")
    for name, values in errors.items():
        axes.plot(arguments.features, values, marker="o", label=name)
    axes.set(xscale="log", yscale="log", xlabel="random features per head", ylabel="relative error", title=table.title)
    axes.set_xticks(arguments.features, labels=[str(m) for m in arguments.features])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(arguments.output / "linear-error.png", dpi=120)
    print(f"wrote {arguments.output / 'linear-error.png'}")


if __name__ == "__main__":
    main()
