"""Dynamic batching: requests that arrive together are processed in one batch, on one thread."""

import asyncio
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from ..core.errors import UserError
from .limits import Limits

Answer = Callable[[Sequence[str], Any], list[dict[str, Any]]]


class Busy(Exception):
    """The queue is full."""


@dataclass(frozen=True, eq=False)
class _Job:
    texts: Sequence[str]
    options: Hashable
    result: asyncio.Future[list[dict[str, Any]]]


class Batcher:
    """Requests wait in a queue; those with the same options share batches of at most `limits.batch` texts.

    A request with more texts than that is a separate batch. Cancelled requests are skipped.
    `observe` is called with the number of texts of each batch.
    """

    def __init__(self, answer: Answer, limits: Limits, observe: Callable[[int], object] = lambda texts: None):
        self.answer, self.limits, self.observe = answer, limits, observe
        self.jobs: list[_Job] = []
        self.thread = ThreadPoolExecutor(1, "model")
        self._arrived = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        """Texts in the queue."""
        return sum(len(job.texts) for job in self.jobs)

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
        self.thread.shutdown(wait=True, cancel_futures=True)

    async def submit(self, texts: Sequence[str], options: Hashable = None) -> list[dict[str, Any]]:
        """The predictions for the texts of a request; raises `Busy` if the queue is full."""
        if self.waiting + len(texts) > self.limits.queue:
            raise Busy
        job = _Job(texts, options, asyncio.get_running_loop().create_future())
        self.jobs.append(job)
        self._arrived.set()
        try:
            return await job.result
        finally:
            if job in self.jobs:
                self.jobs.remove(job)

    async def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function on the model's thread, between batches."""
        return await asyncio.get_running_loop().run_in_executor(self.thread, function, *arguments)

    async def _run(self) -> None:
        while True:
            await self._arrived.wait()
            if self.waiting < self.limits.batch:
                await asyncio.sleep(self.limits.wait)
            jobs = self._take()
            if not self.jobs:
                self._arrived.clear()
            if jobs:
                await self._answer(jobs)

    def _take(self) -> list[_Job]:
        """The next batch: the oldest request, and others with the same options."""
        if not self.jobs:
            return []
        taken, texts = [], 0
        for job in [job for job in self.jobs if job.options == self.jobs[0].options]:
            if taken and texts + len(job.texts) > self.limits.batch:
                break
            taken.append(job)
            texts += len(job.texts)
        self.jobs = [job for job in self.jobs if job not in taken]
        return taken

    async def _answer(self, jobs: list[_Job]) -> None:
        texts = [text for job in jobs for text in job.texts]
        self.observe(len(texts))
        try:
            answers = iter(await self.run(self.answer, texts, jobs[0].options))
        except Exception as error:
            if len(jobs) > 1 and isinstance(error, UserError | ValueError):
                for job in jobs:
                    await self._answer([job])
                return
            for job in jobs:
                if not job.result.done():
                    job.result.set_exception(error)
            return
        for job in jobs:
            found = [next(answers) for _ in job.texts]
            if not job.result.done():
                job.result.set_result(found)
