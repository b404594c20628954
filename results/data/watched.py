"""Runs a command, and prints its seconds and the memory of its processes: resident, anonymous and private, at most.

python results/data/watched.py transevolve prepare --data.path table/train.csv
python results/data/watched.py --until run/metrics.jsonl transevolve train ... --output run  # to the first step

`--until FILE` prints when the file first holds a line. Memory is read from Linux's /proc every half second.
"""

import argparse
import subprocess
import time
from pathlib import Path

import psutil

PAUSE = 0.5


def memory(process: psutil.Process) -> dict[str, float]:
    """Megabytes: resident with mapped files, anonymous, and what no other process shares."""
    lines = Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines()[1:]
    sizes = {name.rstrip(":"): int(size) / 1000 for name, size, *_ in map(str.split, lines)}
    return {
        "resident": sizes["Rss"],
        "anonymous": sizes["Anonymous"],
        "private": sizes["Private_Clean"] + sizes["Private_Dirty"],
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--until", type=Path)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    started, first, peaks = time.perf_counter(), None, {}
    running = subprocess.Popen(options.command)
    while running.poll() is None:
        time.sleep(PAUSE)
        if first is None and options.until is not None and options.until.exists() and options.until.stat().st_size:
            first = time.perf_counter() - started
            print(f"first line of {options.until} after {first:.1f} s", flush=True)
        try:
            whole = psutil.Process(running.pid)
            for process in [whole, *whole.children(recursive=True)]:
                name = f"{process.pid} {' '.join(process.cmdline())[:60]}"
                known = peaks.setdefault(name, dict.fromkeys(("resident", "anonymous", "private"), 0.0))
                for kind, size in memory(process).items():
                    known[kind] = max(known[kind], size)
        except (psutil.Error, OSError):
            continue
    print(f"{time.perf_counter() - started:.1f} s, exit code {running.returncode}")
    for name, sizes in peaks.items():
        print(", ".join(f"{kind} {size:,.0f} MB" for kind, size in sizes.items()), "at most:", name)


if __name__ == "__main__":
    main()
