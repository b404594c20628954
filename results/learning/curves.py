"""Learning curves on AG News and IMDB: TransEvolve, a Transformer of the same skeleton, and bags of words.

    python results/learning/curves.py --data DATA --work WORK

`DATA` holds `ag_news/{train,test}.jsonl.gz` and `imdb/{train,test,unsup}.jsonl.gz`. Every case is one
`transevolve train` with nothing set but its files, in a folder of `WORK`; finished cases are not repeated. `--match`
limits what is run; `--collect` only writes the table and the plot from the runs that are there. Records in
`curves.json` of runs that are not in `WORK` stay as they are.
"""

import argparse
import csv
import gzip
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from statistics import mean, stdev

HERE = Path(__file__).parent
TABLE = HERE / "curves.json"
ROWS = {"ag_news": [1000, 2000, 10_000, 69_200], "imdb": [2000, 25_000]}
SYSTEMS = {"transevolve": "fullFF-1", "transformer": "Transformer"}
BAGS = {"logistic_regression": "logistic regression", "naive_bayes": "naive Bayes"}
ONE_SEED_ABOVE = 10_000


@dataclass(frozen=True)
class Case:
    data: str
    rows: int
    sample: int
    unlabelled: bool
    system: str

    @property
    def name(self) -> str:
        return f"{self.data}-{self.rows}-{self.sample}{'-unlabelled' if self.unlabelled else ''}-{self.system}"


def has_unlabelled(data: str, rows: int) -> bool:
    """Whether there are texts besides the training rows: all rows of AG News leave none."""
    return data != "ag_news" or rows < ROWS[data][-1]


def cases() -> Iterator[Case]:
    for system in SYSTEMS:
        for unlabelled in (False, True):
            for data, sizes in ROWS.items():
                for rows in sizes:
                    if unlabelled and not has_unlabelled(data, rows):
                        continue
                    for sample in range(3 if rows <= ONE_SEED_ABOVE else 1):
                        yield Case(data, rows, sample, unlabelled, system)


def read(path: Path) -> list[dict]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def write_table(path: Path, rows: list[dict]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["text", "label"])
        table.writerows([row["text"], row["label"]] for row in rows)


def plain(text: str) -> str:
    return " ".join(text.split())


def write_texts(path: Path, rows: list[dict]) -> None:
    path.write_text("".join(plain(row["text"]) + "\n" for row in rows), encoding="utf-8")


def make_files(case: Case, data: Path, work: Path) -> tuple[Path, Path, Path]:
    """The files of training rows, of unlabelled texts and of test rows."""
    stem = work / f"{case.data}-{case.rows}-{case.sample}"
    train, rest, test = stem.with_suffix(".csv"), stem.with_suffix(".txt"), work / f"{case.data}-test.csv"
    if not test.exists():
        write_table(test, read(data / case.data / "test.jsonl.gz"))
    if not train.exists() or not rest.exists():
        rows = read(data / case.data / "train.jsonl.gz")
        random.Random(1000 + case.sample).shuffle(rows)
        more = read(data / "imdb" / "unsup.jsonl.gz") if case.data == "imdb" else []
        tested = {plain(row["text"]) for row in read(data / case.data / "test.jsonl.gz")}
        write_texts(rest, [row for row in rows[case.rows :] + more if plain(row["text"]) not in tested])
        write_table(train, rows[: case.rows])
    return train, rest, test


def run(case: Case, data: Path, work: Path) -> None:
    if (work / case.name / "results.json").exists():
        return
    train, rest, test = make_files(case, data, work)
    command = ["train", "--data.path", train.name, "--data.test", test.name, "--output", case.name]
    command += ["--data.unlabelled", rest.name] if case.unlabelled else []
    command += ["--model.system", case.system] if case.system != "transevolve" else []
    with (work / f"{case.name}.log").open("w") as log:
        environment = {"OMP_WAIT_POLICY": "PASSIVE", **os.environ}
        subprocess.run(
            [sys.executable, "-m", "transevolve", *command], cwd=work, stdout=log, stderr=log, env=environment
        )


def score(values: list[float]) -> str:
    spread = f" ± {100 * stdev(values):.1f}" if len(values) > 1 else ""
    return f"{100 * mean(values):.1f}{spread}" if values else "not measured"


def collect(work: Path) -> list[dict]:
    """The record of every finished case: its test accuracies, seconds and provenance."""
    earlier = {Case(*(one[field.name] for field in fields(Case))): one for one in json.loads(TABLE.read_text())}
    records = []
    for case in cases():
        path = work / case.name / "results.json"
        if not path.exists():
            records += [earlier[case]] if case in earlier else []
            continue
        results = json.loads(path.read_text())
        bags = {name: results["yardstick"][name]["test"] for name in BAGS if name in results["yardstick"]}
        records.append(
            {
                **vars(case),
                "test": results["test"]["accuracy"],
                **bags,
                "seconds": results["seconds"],
                "parameters": results["parameters"],
                "command": results["command"],
                "machine": results["machine"],
            }
        )
    return records


def chosen(records: list[dict], field: str, **where: object) -> list[float]:
    return [one[field] for one in records if all(one[key] == value for key, value in where.items()) and field in one]


def of_samples(records: list[dict], field: str, **where: object) -> list[float]:
    """One value for each sample: bags of words are the same in every case of a sample."""
    matching = [one for one in records if field in one and all(one[key] == value for key, value in where.items())]
    return list({one["sample"]: one[field] for one in matching}.values())


def table(records: list[dict]) -> str:
    head = ["data", "rows", "samples", *SYSTEMS.values(), *(f"{name}, with unlabelled" for name in SYSTEMS.values())]
    lines = [[*head, *BAGS.values()], ["---"] * (len(head) + len(BAGS))]
    for data, sizes in ROWS.items():
        for rows in sizes:
            where = {"data": data, "rows": rows}
            mine = [
                score(chosen(records, "test", **where, system=system, unlabelled=unlabelled))
                if not unlabelled or has_unlabelled(data, rows)
                else "no texts left"
                for unlabelled in (False, True)
                for system in SYSTEMS
            ]
            bags = [score(of_samples(records, bag, **where)) for bag in BAGS]
            lines.append([data, f"{rows:,}", str(len(of_samples(records, "test", **where))), *mine, *bags])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def plot(records: list[dict], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, len(ROWS), figsize=(9, 3.6), layout="constrained", width_ratios=[3, 2])
    curves = [(f"{label}{', unlabelled texts' if more else ''}", "test", system, more)
              for more in (True, False) for system, label in SYSTEMS.items()]  # fmt: skip
    curves += [(label, bag, "transevolve", False) for bag, label in BAGS.items()]
    for panel, (data, sizes) in zip(panels, ROWS.items(), strict=True):
        for number, (label, field, system, more) in enumerate(curves):
            kind = {} if field in BAGS else {"system": system, "unlabelled": more}
            found = {rows: of_samples(records, field, data=data, rows=rows, **kind) for rows in sizes}
            points = [(rows, 100 * mean(values)) for rows, values in found.items() if values]
            if points:
                style = {"linestyle": "--" if field in BAGS else "-", "color": f"C{number}"}
                panel.plot(*zip(*points, strict=True), marker="o", label=label, **style)
        panel.set(xscale="log", title=data, xlabel="training rows")
        panel.set_xticks(sizes, [f"{rows:,}" for rows in sizes])
        panel.minorticks_off()
    panels[0].set_ylabel("test accuracy, %")
    panels[0].legend(fontsize=7)
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--match", nargs="*", default=[""], help="run the cases that contain one of these")
    parser.add_argument("--collect", action="store_true")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    if not options.collect:
        for text in options.match:
            for case in cases():
                if text in case.name:
                    print(case.name, flush=True)
                    run(case, options.data.resolve(), options.work.resolve())
    records = collect(options.work)
    TABLE.write_text(json.dumps(records, indent=1) + "\n")
    (HERE / "curves.md").write_text(table(records))
    plot(records, HERE / "curves.png")


if __name__ == "__main__":
    main()
