"""`transevolve serve`: serves a model over HTTP, with a demo page."""

import os
import sys
from dataclasses import dataclass, field
from importlib.util import find_spec
from ipaddress import ip_address
from typing import Literal

from ..config.command_line import POSITIONAL
from ..core.errors import UserError
from ..serving.limits import Limits

PACKAGES = ("fastapi", "uvicorn", "prometheus_client")
TOKEN = "TRANSEVOLVE_TOKEN"
LONGEST_TOKEN = 4096


@dataclass(frozen=True)
class Options:
    """POST /predict or /translate with {"texts": [...]}; / is a demo page, /openapi.json the schema, and
    /healthz and /metrics are for monitoring. SIGTERM and Ctrl-C stop the server after pending requests.

    Args:
        run: Folder of a trained model.
        host: Address to listen on; 127.0.0.1 is this machine only, 0.0.0.0 all of its network interfaces.
        port: Port to listen on; 0 selects a free port.
        token_file: A file with the bearer token on its first line; by default the variable TRANSEVOLVE_TOKEN.
        batch: Texts that the model processes at once.
        wait_ms: Milliseconds that a text waits for others to fill a batch.
        queue: Maximum number of waiting texts; further requests get status 503.
        max_body: Maximum bytes per request.
        max_texts: Maximum texts per request.
        max_characters: Maximum characters per text.
        timeout: Seconds to receive a request, and to answer it.
        batch_tokens: Tokens per batch.
        threads: Threads of the model; 0 is PyTorch's default.
        precision: int8 quantizes weights when the model is loaded (CPU); by default as stored in the run folder.
    """

    run: str = field(metadata=POSITIONAL)
    host: str = "127.0.0.1"
    port: int = 8000
    token_file: str | None = None
    batch: int = Limits.batch
    wait_ms: float = 1000 * Limits.wait
    queue: int = Limits.queue
    max_body: int = Limits.body
    max_texts: int = Limits.texts
    max_characters: int = Limits.characters
    timeout: float = Limits.seconds
    batch_tokens: int = 8192
    threads: int = 0
    precision: Literal["float32", "int8"] | None = None


def run(options: Options) -> int:
    missing = [name.replace("_", "-") for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise UserError(f"serve needs {', '.join(missing)}: pip install 'transevolve[serve]'")
    if not 0 <= options.port <= 65535:
        raise UserError(f"--port must be 0 to 65535, not {options.port}")
    from ..core.machine import cpu_threads
    from ..inference import load
    from ..serving.server import address, bind, serve

    limits = Limits(
        body=options.max_body,
        texts=options.max_texts,
        characters=options.max_characters,
        queue=options.queue,
        seconds=options.timeout,
        batch=options.batch,
        wait=options.wait_ms / 1000,
    )
    token = _token(options)
    model = load(options.run, batch_tokens=options.batch_tokens, precision=options.precision)
    try:
        listening = bind(options.host, options.port)
    except OSError as error:
        raise UserError(f"cannot listen on {options.host} port {options.port}: {error.strerror or error}") from None
    if token is None and not _is_local(options.host):
        print(f"note: anyone who can reach {options.host} can use this server: set {TOKEN}", file=sys.stderr)
    with listening, cpu_threads(options.threads):
        print(f"{options.run}, {model.kind.noun}, at {address(listening)}; Ctrl-C stops", flush=True)
        serve(model, listening, limits, token)
    return 0


def _token(options: Options) -> str | None:
    token = os.environ.get(TOKEN)
    if options.token_file is not None:
        with open(options.token_file, encoding="utf-8", errors="replace") as file:
            token = file.readline(LONGEST_TOKEN).strip()
    if token is not None and not (token and token.isascii() and token.isprintable()):
        raise UserError("the token must be one line of printable ASCII characters")
    return token


def _is_local(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
