"""Checks the token, body size and arrival time of every request."""

import asyncio
import hmac
import time
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from typing import Any

from starlette.responses import JSONResponse

from .limits import Limits
from .metrics import Metrics

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
OPEN = ("/", "/healthz")
DRAINED = 64


class Refused(Exception):
    def __init__(self, status: int, error: str):
        self.status, self.error = status, error


class Guard:
    """Rejects invalid requests and counts all of them. The whole body is read before a request is passed on.

    The rest of a body that is too large is read and dropped, up to `DRAINED` times the limit: a client that is still
    sending would not see the answer otherwise.
    """

    def __init__(self, app: Any, limits: Limits, token: str | None, metrics: Metrics, paths: Collection[str]):
        self.app, self.limits, self.token, self.metrics, self.paths = app, limits, token, metrics, paths

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, path = time.perf_counter(), scope["path"]
        label = path if path in self.paths else "other"

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.metrics.requests.labels(label, message["status"]).inc()
            await send(message)

        try:
            await self.app(scope, await self._checked(scope, receive), counted)
        except Refused as refused:
            headers = {"connection": "close", **({"www-authenticate": "Bearer"} if refused.status == 401 else {})}
            await JSONResponse({"error": refused.error}, refused.status, headers)(scope, receive, counted)
        finally:
            self.metrics.seconds.labels(label).observe(time.perf_counter() - started)

    async def _checked(self, scope: Message, receive: Receive) -> Receive:
        """The body, to be received again; raises `Refused`."""
        headers = {name.lower(): value for name, value in scope["headers"]}
        if self.token is not None and scope["path"] not in OPEN:
            expected = f"Bearer {self.token}".encode()
            if not hmac.compare_digest(headers.get(b"authorization", b""), expected):
                raise Refused(401, "give the server's token: Authorization: Bearer TOKEN")
        try:
            body = await asyncio.wait_for(self._body(receive), self.limits.seconds)
        except TimeoutError:
            raise Refused(408, f"the request did not arrive within {self.limits.seconds:g} seconds") from None
        sent = False

        async def replay() -> Message:
            nonlocal sent
            if sent:
                return await receive()
            sent = True
            return {"type": "http.request", "body": body, "more_body": False}

        return replay

    async def _body(self, receive: Receive) -> bytes:
        parts, size, more = [], 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Refused(400, "the client closed the connection before its request was complete")
            part, more = message.get("body", b""), message.get("more_body", False)
            size += len(part)
            if size <= self.limits.body:
                parts.append(part)
            elif size > DRAINED * self.limits.body:
                break
        if size > self.limits.body:
            raise Refused(413, f"the request has more than {self.limits.body:,} bytes")
        return b"".join(parts)
