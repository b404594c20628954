"""The web application: `/predict`, `/translate` and so on, a demo page, health and metrics."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response
from starlette.exceptions import HTTPException as StarletteHTTPException

from .. import __version__
from ..core.errors import UserError
from ..core.pages import render
from ..explain.observe import Observer
from ..explain.page import explanation_page
from ..inference import LoadedRun
from ..models.heads.classification import TransEvolveForSequenceClassification
from .batcher import Batcher, Busy
from .guard import Guard
from .limits import Limits
from .metrics import Metrics
from .schema import Answers, Error, Info, explain_class, request_class

EXAMPLE, PAIR = "a text", "a text\tanother text"
EXPLAINED_TOKENS, SHOWN_TOKENS, LONGEST_NAME = 512, 48, 80
FAILURES: dict[int | str, dict[str, Any]] = {
    401: {"model": Error, "description": "No token, or a wrong one"},
    408: {"model": Error, "description": "The request arrived too slowly"},
    413: {"model": Error, "description": "The request is too large"},
    422: {"model": Error, "description": "The request is not as described"},
    503: {"model": Error, "description": "Too many texts are waiting: try again later"},
    504: {"model": Error, "description": "No answer in time"},
}


def create_app(model: LoadedRun, limits: Limits | None = None, token: str | None = None) -> FastAPI:
    """The application of one run."""
    limits = limits or Limits()
    service = _Service(model, limits)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service.batcher.start()
        yield
        await service.batcher.close()

    app = FastAPI(
        title=f"transevolve: {model.folder.name}", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None
    )
    command = model.kind.command
    request_model = request_class(command, limits, service.example)
    example = {200: {"content": {"application/json": {"example": {"predictions": service.warm_up()}}}}}

    async def answer(request: Any) -> Any:
        return {"predictions": await service.answer(request)}

    answer.__annotations__["request"] = request_model
    app.post(f"/{command}", response_model=Answers, responses={**example, **FAILURES}, summary=model.kind.noun)(answer)

    @app.get("/info", responses={401: FAILURES[401]})
    async def info() -> Info:
        return service.info()

    @app.get("/healthz", summary="Whether the server answers")
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/metrics", response_class=Response, summary="Prometheus metrics")
    async def metrics() -> Response:
        return Response(service.metrics.page(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/", response_class=HTMLResponse, include_in_schema=False)
    async def page() -> str:
        return render(
            "serve.html",
            title=f"transevolve: {model.folder.name}",
            noun=model.kind.noun,
            data={"path": f"/{command}", "explains": service.explains, "token": token is not None},
        )

    @app.get("/docs", response_class=HTMLResponse, include_in_schema=False)
    async def docs(request: Request) -> str:
        return render(
            "serve-docs.html",
            title=app.title,
            schema=app.openapi(),
            address=str(request.base_url).rstrip("/"),
            examples={f"/{command}": {"texts": [service.example]}, "/explain": {"text": EXAMPLE}},
        )

    if service.explains:

        async def explain(request: Any) -> str:
            return await service.within_time(service.batcher.run(service.explain, request.text))

        explain.__annotations__["request"] = explain_class(limits)
        summary = "A page about one text"
        app.post("/explain", response_class=HTMLResponse, responses=FAILURES, summary=summary)(explain)

    paths = {getattr(route, "path", "") for route in app.routes}
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(StarletteHTTPException, _refused)
    app.add_middleware(Guard, limits=limits, token=token, metrics=service.metrics, paths=paths)
    return app


class _Service:
    """A model with its batcher and its metrics."""

    def __init__(self, model: LoadedRun, limits: Limits):
        self.model, self.limits = model, limits
        self.batcher = Batcher(self._answers, limits, lambda texts: self.metrics.batches.observe(texts))
        self.metrics = Metrics(lambda: self.batcher.waiting, lambda: model.session.truncated)
        self.observer: Observer | None = None

    @property
    def explains(self) -> bool:
        single = self.model.columns is None and self.model.kind.name == "classification"
        return single and isinstance(self.model.model, TransEvolveForSequenceClassification)

    def _answers(self, texts: Sequence[str], options: Any) -> list[dict[str, Any]]:
        found = self.model.answer(list(enumerate(texts, start=1)), "texts", **dict(options))
        return [prediction.as_dict() for prediction in found]

    @property
    def example(self) -> str:
        return EXAMPLE if self.model.columns is None else PAIR

    def warm_up(self) -> list[dict[str, Any]]:
        return self._answers([self.example], ())

    async def answer(self, request: Any) -> list[dict[str, Any]]:
        try:
            options = request.options(self.model)
            return await self.within_time(self.batcher.submit(request.texts, options))
        except UserError as error:
            raise HTTPException(422, str(error)) from None
        except Busy:
            message = f"{self.batcher.waiting:,} texts are waiting, the limit is {self.limits.queue:,}: try again later"
            raise HTTPException(503, message, {"retry-after": "1"}) from None

    async def within_time(self, awaited: Any) -> Any:
        try:
            return await asyncio.wait_for(awaited, self.limits.seconds)
        except TimeoutError:
            raise HTTPException(504, f"no answer within {self.limits.seconds:g} seconds") from None

    def explain(self, text: str) -> str:
        tokens = len(self.model.tokenizer(text)["input_ids"])
        if tokens > EXPLAINED_TOKENS or not text.strip():
            raise HTTPException(422, f"explain takes a text of 1 to {EXPLAINED_TOKENS} tokens, this one has {tokens}")
        self.observer = self.observer or Observer(self.model.folder)
        evolves = self.observer.model.config.evolution != "none"
        return explanation_page(self.observer.observe(text), SHOWN_TOKENS, evolves, not self.observer.exact)

    def info(self) -> Info:
        model = self.model
        return Info(
            run=model.folder.name,
            kind=model.kind.name,
            path=f"/{model.kind.command}",
            parameters=model.model.num_parameters(),
            max_tokens=model.session.max_length,
            labels=model.kind.labels(model.model.config),
            version=__version__,
        )


async def _invalid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"] if part != "body")
    where = where if len(where) <= LONGEST_NAME else f"{where[:LONGEST_NAME]}..."
    return JSONResponse({"error": f"{where + ': ' if where else ''}{first['msg']}"}, 422)


async def _refused(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, StarletteHTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)
