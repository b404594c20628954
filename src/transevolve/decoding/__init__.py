"""Decoding: the paper's beam search, for TransEvolve and any Hugging Face encoder-decoder."""

from .beam import BeamOptions, Hypothesis, beam_search, generate_beams

__all__ = ["BeamOptions", "Hypothesis", "beam_search", "generate_beams"]
