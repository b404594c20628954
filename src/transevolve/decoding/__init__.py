"""Decoding: the paper's beam search, for TransEvolve and for any encoder-decoder of Hugging Face."""

from .beam import BeamOptions, Hypothesis, beam_search, generate_beams

__all__ = ["BeamOptions", "Hypothesis", "beam_search", "generate_beams"]
