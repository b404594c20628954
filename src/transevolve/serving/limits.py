"""Limits and batching settings of a server."""

from dataclasses import dataclass, fields

from ..core.errors import UserError


@dataclass(frozen=True)
class Limits:
    """Limits of a server.

    Args:
        body: Bytes of a request.
        texts: Texts of a request.
        characters: Characters of a text.
        queue: Texts that wait, of all requests together.
        seconds: Seconds to receive a request, and again to answer it.
        batch: Texts that the model processes at once.
        wait: Seconds that a text waits for others to fill a batch.
    """

    body: int = 1_000_000
    texts: int = 256
    characters: int = 100_000
    queue: int = 1024
    seconds: float = 30.0
    batch: int = 64
    wait: float = 0.005

    def __post_init__(self):
        for field in fields(self):
            value = getattr(self, field.name)
            if value < 0 or (value == 0 and field.name != "wait"):
                raise UserError(f"the server's limit {field.name} must be positive, not {value}")
        if self.queue < self.texts:
            raise UserError(f"a queue of {self.queue} texts has no room for a request of {self.texts}")
