"""Load test of `transevolve serve`: many clients at once, latency, batches and memory.

    python examples/serve_load.py RUN --clients 64 --requests 10000 --output results/serve

Starts the server in a separate process on a free port, sends requests of one text each from this process, and writes
load.json and load.md.
"""

import argparse
import asyncio
import json
import random
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import httpx
import psutil

from transevolve.core.machine import describe_machine

WORDS = [
    "the",
    "a",
    "film",
    "was",
    "and",
    "it",
    "of",
    "great",
    "awful",
    "story",
    "actors",
    "plot",
    "in",
    "two",
    "men",
    "ride",
    "bicycle",
    "dog",
    "snow",
    "market",
    "police",
]
TEXTS = [" ".join(random.Random(i).choices(WORDS, k=3 + i % 30)) for i in range(997)]


async def client(address: str, path: str, numbers, seconds: list[float], failures: list[str]) -> None:
    """One user with a connection of its own: a pool of many is slower than the server."""
    async with httpx.AsyncClient(base_url=address, timeout=60, verify=False) as http:
        for number in numbers:
            start = time.perf_counter()
            try:
                response = await http.post(path, json={"texts": [TEXTS[number % len(TEXTS)]]})
                if response.status_code != 200:
                    failures.append(f"{response.status_code} {response.text[:100]}")
            except httpx.HTTPError as error:
                failures.append(repr(error))
            seconds.append(time.perf_counter() - start)


async def load(address: str, clients: int, requests: int, server: psutil.Process) -> dict:
    """Every client sends its next request when it has its answer."""
    numbers, seconds, failures, memory = iter(range(requests)), [], [], []

    async def watch() -> None:
        while True:
            memory.append(server.memory_info().rss / 1e6)
            await asyncio.sleep(1)

    async with httpx.AsyncClient(base_url=address, timeout=60) as http:
        path = (await http.get("/info")).json()["path"]
        watcher = asyncio.create_task(watch())
        start = time.perf_counter()
        await asyncio.gather(*(client(address, path, numbers, seconds, failures) for _ in range(clients)))
        elapsed = time.perf_counter() - start
        watcher.cancel()
        metrics = (await http.get("/metrics")).text
    batches, texts = (float(re.findall(rf"batch_texts_{name} (\S+)", metrics)[0]) for name in ("count", "sum"))
    seconds.sort()
    return {
        "requests": len(seconds),
        "failures": failures,
        "seconds": elapsed,
        "requests per second": len(seconds) / elapsed,
        "p50 ms": 1e3 * seconds[len(seconds) // 2],
        "p99 ms": 1e3 * seconds[int(len(seconds) * 0.99)],
        "largest ms": 1e3 * seconds[-1],
        "texts per batch": texts / batches,
        "memory MB at a tenth": memory[len(memory) // 10],
        "memory MB at the end": memory[-1],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--output", type=Path, default=Path("results/serve"))
    parser.add_argument("--name", default="load")
    options, more = parser.parse_known_args()
    words = [sys.executable, "-m", "transevolve", "serve", options.run, "--port", "0", *more]
    before = describe_machine()
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        found = re.search(r"http://\S+?(?=;)", running.stdout.readline())
        assert found is not None, "the server did not start"
        measured = asyncio.run(load(found[0], options.clients, options.requests, psutil.Process(running.pid)))
        running.terminate()
    command = shlex.join(["python", "examples/serve_load.py", Path(options.run).name, *sys.argv[2:]])
    record = {"command": command, "clients": options.clients, **measured, "exit code": running.returncode, **before}
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / f"{options.name}.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    shown = {**record, "failures": len(measured["failures"])}
    cells = {name: f"{value:,.1f}" if isinstance(value, float) else value for name, value in shown.items()}
    rows = [f"| {name} | {value} |" for name, value in cells.items()]
    text = "\n".join(["# The server under load", "", "| what | value |", "| --- | --- |", *rows, ""])
    (options.output / f"{options.name}.md").write_text(text, encoding="utf-8")
    print(text)
    return 1 if measured["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
