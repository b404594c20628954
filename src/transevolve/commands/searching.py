"""The beam search of `translate` and `evaluate`: the run's own, but for what is given."""

import math
from dataclasses import replace
from typing import Protocol

from ..core.errors import UserError
from ..decoding import BeamOptions


class Search(Protocol):
    """The options of a search."""

    @property
    def beam(self) -> int | None: ...
    @property
    def length_penalty(self) -> float: ...
    @property
    def extra_length(self) -> int | None: ...


def search_of(options: Search, own: BeamOptions, n_best: int = 1) -> BeamOptions:
    beams = own.beams if options.beam is None else options.beam
    extra_length = own.extra_length if options.extra_length is None else options.extra_length
    for name, value in (("beam", beams), ("extra_length", extra_length), ("n_best", n_best)):
        if value < 1:
            raise UserError(f"--{name} must be at least 1, not {value}")
    if n_best > beams:
        raise UserError(f"--n_best {n_best} needs at least as many beams: raise --beam, which is {beams}")
    if not 0 <= options.length_penalty < math.inf:
        raise UserError(f"--length_penalty must be a number of at least 0, not {options.length_penalty}")
    return replace(own, beams=beams, alpha=options.length_penalty, extra_length=extra_length, n_best=n_best)
