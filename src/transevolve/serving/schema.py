"""Schemas of requests and responses."""

from collections.abc import Hashable
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, create_model

from ..config.sampling import Sampling
from ..inference import LoadedRun
from ..kinds.translation import run_search
from .limits import Limits

MOST_BEAMS, MOST_EXTRA = 32, 1000


class TextsRequest(BaseModel):
    """Texts to predict, in order."""

    model_config = ConfigDict(extra="forbid", strict=True)
    texts: list[str]

    def options(self, model: LoadedRun) -> Hashable:
        """Options of `LoadedRun.answer`, as pairs; requests with equal options share batches."""
        return ()


class TranslateRequest(TextsRequest):
    """Sentences to translate, in order."""

    beam: int | None = Field(None, ge=1, le=MOST_BEAMS, description="Beams; by default the recipe's, usually 4")
    length_penalty: float | None = Field(None, ge=0, le=10, description="Exponent of the length penalty; 0.6")
    extra_length: int | None = Field(None, ge=1, le=MOST_EXTRA, description="Tokens beyond the source's length")
    n_best: int | None = Field(None, ge=1, le=MOST_BEAMS, description="Translations of each sentence, best first")

    def options(self, model: LoadedRun) -> Hashable:
        changes = self.model_dump(exclude={"texts"})
        return (("search", run_search(model.recipe, **changes)),)


class GenerateRequest(TextsRequest):
    """Prompts to continue, in order; with a temperature above 0, texts depend on the other texts in the batch."""

    new_tokens: int = Field(Sampling.new_tokens, ge=1, le=MOST_EXTRA, description="Tokens to write at most")
    temperature: float = Field(
        Sampling.temperature, ge=0, le=100, description="Divides the logits; 0 takes the likeliest"
    )
    top_k: int = Field(Sampling.top_k, ge=0, description="Choose among this many of the likeliest tokens; 0 is all")
    top_p: float = Field(Sampling.top_p, gt=0, le=1, description="Choose among tokens of this total probability")
    beam: int = Field(Sampling.beam, ge=1, le=MOST_BEAMS, description="Beams, instead of sampling")
    samples: int = Field(Sampling.samples, ge=1, le=MOST_BEAMS, description="Texts per prompt")
    repetition_penalty: float = Field(
        Sampling.repetition_penalty, gt=0, le=100, description="Above 1, fewer repetitions"
    )
    seed: int = Field(Sampling.seed, ge=0, lt=2**63, description="Seed of the sampling")

    def options(self, model: LoadedRun) -> Hashable:
        return (("sampling", Sampling(**self.model_dump(exclude={"texts"}))),)


REQUESTS: dict[str, type[TextsRequest]] = {
    "predict": TextsRequest,
    "translate": TranslateRequest,
    "generate": GenerateRequest,
}


class ExplainRequest(BaseModel):
    """One text to explain."""

    model_config = ConfigDict(extra="forbid", strict=True)
    text: str


class Answers(BaseModel):
    """One object per text, as printed by `transevolve predict --json` or `translate --json`."""

    predictions: list[dict[str, Any]]


class Error(BaseModel):
    """An error message of one line."""

    error: str


class Info(BaseModel):
    """The model behind the server."""

    run: str
    kind: str
    path: str
    parameters: int
    max_tokens: int
    labels: list[str] | None
    version: str


def request_class(command: str, limits: Limits, example: str) -> type[TextsRequest]:
    """The request schema of a command, with the limits of the server."""
    base, text = REQUESTS.get(command, TextsRequest), limited_text(limits)
    described = Field(min_length=1, max_length=limits.texts, description="The texts", examples=[[example]])
    return create_model(base.__name__, __base__=base, texts=(list[text], described))  # pyright: ignore[reportCallIssue, reportArgumentType, reportInvalidTypeForm]


def explain_class(limits: Limits) -> type[ExplainRequest]:
    return create_model(ExplainRequest.__name__, __base__=ExplainRequest, text=(limited_text(limits), ...))


def limited_text(limits: Limits) -> Any:
    return Annotated[str, Field(max_length=limits.characters)]
