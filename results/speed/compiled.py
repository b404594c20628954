"""Training steps compiled with `torch.compile` beside eager ones, and the time that compilation takes.

    python results/speed/compiled.py --threads 1 --precision fp32 bf16 > results/speed/compiled.md

Full graph, inductor, fixed shapes. Each system is a process of its own, with an empty cache of compiled code; eager and
compiled steps alternate.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from statistics import median

from transevolve.core.environment import tune_environment

if __name__ == "__main__":
    tune_environment()

import torch

from transevolve.bench.cell import Cell, load, random_inputs
from transevolve.bench.systems import parse_spec
from transevolve.core.machine import describe_machine

SYSTEMS = [f"fullFF-1:{name}" for name in ("once", "fused", "literal", "linear")] + ["randomFF-1:once"]
SYSTEMS += ["transformer", "performer", "linear-attention", "linformer", "nystromformer", "fnet"]


def measure(name: str, options: argparse.Namespace, precision: str) -> dict:
    torch.set_num_threads(options.threads)
    spec = parse_spec(name, "small")
    cell = Cell(name, "small", options.length, 1, "train", 8000, None, 0, "cpu", options.threads, precision)
    inputs = random_inputs(cell, 1, options.length)
    eager, compiled = load(cell, spec), load(replace(cell, seed=1), spec)
    compiled.model.compile(fullgraph=True)
    start = time.perf_counter()
    compiled.step(inputs)
    first = time.perf_counter() - start
    eager.step(inputs)
    seconds = {"eager": [], "compiled": []}
    for _ in range(options.steps):
        for kind, workload in (("eager", eager), ("compiled", compiled)):
            start = time.perf_counter()
            workload.step(inputs)
            seconds[kind].append(time.perf_counter() - start)
    medians = {kind: median(values) for kind, values in seconds.items()}
    return medians | {"first": first, "machine": describe_machine(threads=options.threads)}


def in_new_process(name: str, precision: str) -> dict:
    with tempfile.TemporaryDirectory() as cache:
        variables = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": cache}
        command = [sys.executable, __file__, *sys.argv[1:], "--one", name, precision]
        done = subprocess.run(command, env=variables, capture_output=True, text=True)
    if done.returncode:
        return {"failed": done.stderr.strip().splitlines()[-1][:80]}
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=7)
    parser.add_argument("--precision", nargs="+", default=["fp32"])
    parser.add_argument("--one", nargs=2, help="measure this system and precision only, in this process")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one[0], options, options.one[1])))
        return
    rows = [(name, kind, in_new_process(name, kind)) for kind in options.precision for name in SYSTEMS]
    print("# Compiled training steps\n\n`python results/speed/compiled.py " + " ".join(sys.argv[1:]) + "`\n")
    print(
        f"One text of {options.length:,} tokens, width 256, six depths; milliseconds, medians of {options.steps} steps."
    )
    print("*First step* contains compilation, in seconds.\n")
    machine = next(found["machine"] for _, _, found in rows if "machine" in found)
    print("".join(f"- {key}: `{value}`\n" for key, value in machine.items()))
    print("| system | precision | eager | compiled | compiled / eager | first step |\n|---|---|---|---|---|---|")
    for name, kind, found in rows:
        if "failed" in found:
            print(f"| {name} | {kind} | | | | {found['failed']} |")
            continue
        eager, compiled = 1000 * found["eager"], 1000 * found["compiled"]
        print(f"| {name} | {kind} | {eager:,.0f} | {compiled:,.0f} | {compiled / eager:.2f} | {found['first']:.0f} |")


if __name__ == "__main__":
    main()
