"""Options for generating text with a causal language model."""

from dataclasses import dataclass
from typing import Any

from ..core.errors import UserError


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """Options of the `generate` command and of a request to the server.

    Args:
        new_tokens: Maximum number of tokens to generate.
        temperature: Divides the logits; below 1 favours likely tokens, 0 always selects the most likely one.
        top_k: Sample from this many of the most likely tokens; 0 samples from all.
        top_p: Sample from the most likely tokens whose total probability reaches this value.
        beam: Use beam search with this many beams instead of sampling.
        samples: Texts per prompt, one per line.
        repetition_penalty: Above 1, makes tokens of the text so far less likely.
        seed: Random seed.
    """

    new_tokens: int = 50
    temperature: float = 1.0
    top_k: int = 50
    top_p: float = 1.0
    beam: int = 1
    samples: int = 1
    repetition_penalty: float = 1.0
    seed: int = 0

    def __post_init__(self):
        for name in ("new_tokens", "beam", "samples"):
            if getattr(self, name) < 1:
                raise UserError(f"--{name} must be at least 1, not {getattr(self, name)}")
        if self.top_k < 0 or self.temperature < 0 or not 0 < self.top_p <= 1 or self.repetition_penalty <= 0:
            limits = "--top_k and --temperature must be at least 0, --top_p above 0 and at most 1"
            raise UserError(f"{limits}, --repetition_penalty above 0")
        if self.samples > self.beam and not self.sampled:
            raise UserError(f"--samples {self.samples} needs --temperature above 0, or as many beams (--beam)")

    @property
    def sampled(self) -> bool:
        return self.beam == 1 and self.temperature > 0

    def arguments(self) -> dict[str, Any]:
        """Returns the arguments of Hugging Face's `generate`."""
        common = {
            "max_new_tokens": self.new_tokens,
            "num_beams": self.beam,
            "num_return_sequences": self.samples,
            "repetition_penalty": self.repetition_penalty,
        }
        if not self.sampled:
            return {**common, "do_sample": False}
        chosen = {"temperature": self.temperature, "top_k": self.top_k, "top_p": self.top_p}
        return {**common, "do_sample": True, **chosen}
