"""Prometheus metrics of a server."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
TEXTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """Uses a separate registry, so that a process can run several servers."""

    def __init__(self, waiting: Callable[[], float], cut: Callable[[], float]):
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.requests = Counter(
            "transevolve_requests", "Requests by path and status", ["path", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "transevolve_request_seconds", "Seconds to answer", ["path"], buckets=SECONDS, registry=self.registry
        )
        self.batches = Histogram("transevolve_batch_texts", "Texts of a batch", buckets=TEXTS, registry=self.registry)
        self.waiting = Gauge("transevolve_queue_texts", "Texts that wait", registry=self.registry)
        self.waiting.set_function(waiting)
        self.cut = Gauge("transevolve_cut_texts", "Texts longer than the model reads, so far", registry=self.registry)
        self.cut.set_function(cut)

    def page(self) -> bytes:
        return generate_latest(self.registry)
