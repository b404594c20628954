"""Generated bad input of four kinds, through the command line: in this process, and in separate processes."""

import random
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from hardening import try_commands, try_files, try_folders, try_streams
from hardening.campaign import Verdict, campaign
from hardening.program import Call, call, call_process
from hardening.runs import Runs

CHUNK = 500


@dataclass(frozen=True)
class Kind:
    attempt: Callable[[Runs, Call, random.Random], Verdict]
    few: int
    many: int

    def chunks(self) -> list[range]:
        return [range(first, first + CHUNK) for first in range(0, self.many, CHUNK)]

    def judge(self, runs: Runs, call: Call) -> Callable[[random.Random], Verdict]:
        return lambda draw: self.attempt(runs, call, draw)


KINDS = {
    "stream": Kind(try_streams.attempt, few=20, many=10_000),
    "command": Kind(try_commands.attempt, few=50, many=10_000),
    "file": Kind(try_files.attempt, few=40, many=10_000),
    "folder": Kind(try_folders.attempt, few=15, many=2000),
}
CHUNKS = [pytest.param(kind, seeds, id=f"{kind}-{seeds[0]}") for kind in KINDS for seeds in KINDS[kind].chunks()]


@pytest.mark.parametrize("kind", KINDS)
def test_a_few(request, runs, sandbox, kind):
    campaign(request, kind, range(KINDS[kind].few), KINDS[kind].judge(runs, call))


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "seeds"), CHUNKS)
def test_many(request, runs, sandbox, kind, seeds):
    campaign(request, kind, seeds, KINDS[kind].judge(runs, call))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_processes(request, runs, sandbox, kind):
    campaign(request, kind, range(100), KINDS[kind].judge(runs, call_process))
