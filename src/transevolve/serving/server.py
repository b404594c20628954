"""Runs the application in uvicorn; stops after pending requests."""

import signal
import socket

import uvicorn

from ..inference import LoadedRun
from .app import create_app
from .limits import Limits

CONNECTIONS = 1024


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 is any free port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=CONNECTIONS)


def address(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def serve(model: LoadedRun, listening: socket.socket, limits: Limits, token: str | None = None) -> None:
    """Serve until SIGINT or SIGTERM; pending requests are answered first."""
    config = uvicorn.Config(
        create_app(model, limits, token),
        log_level="warning",
        access_log=False,
        server_header=False,
        limit_concurrency=CONNECTIONS,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=int(limits.seconds) + 1,
    )
    # uvicorn raises the signal again when it has stopped.
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        uvicorn.Server(config).run(sockets=[listening])
    finally:
        signal.signal(signal.SIGTERM, before)
