"""Small systems of every kind, for the tests of `peers`."""

import torch
from torch import Tensor

from transevolve import PeerConfig
from transevolve.peers import SYSTEMS, Mixer, MixerShape, build_mixer

SHAPE = MixerShape(hidden_size=16, num_heads=4, max_length=48)
SMALL = {
    "linformer": {"rank": 5},
    "reformer": {"chunk": 4, "hashes": 2},
    "sinkhorn": {"block": 4, "iterations": 3},
    "sparse-transformer": {"block": 4, "summaries": 1},
    "synthesizer-random": {"rank": 3},
    "bigbird": {"block": 2, "random_blocks": 2},
    "performer": {"features": 8},
    "rfa": {"features": 8},
    "nystromformer": {"landmarks": 3, "kernel": 3},
}
CASES = {name: (name, SMALL.get(name, {})) for name in SYSTEMS} | {
    "sparse-transformer strided": ("sparse-transformer", {"pattern": "strided", "block": 4, "summaries": 1}),
    "reformer one hash": ("reformer", {"chunk": 8, "hashes": 1}),
    "synthesizer-random wide": ("synthesizer-random", {"rank": 7}),
}
CAUSAL = [case for case, (name, _) in CASES.items() if SYSTEMS[name].capabilities.causal]


def small(case: str, dtype: torch.dtype = torch.float64, **settings) -> Mixer:
    name, small_settings = CASES[case]
    return build_mixer(name, SHAPE, {**small_settings, **settings}).to(dtype)


def padding_of(*lengths: int, n: int = 9) -> Tensor:
    return torch.arange(n) >= torch.tensor(lengths)[:, None]


def tiny_config(system: str = "transformer", **overrides) -> PeerConfig:
    shape = {"vocab_size": 50, "hidden_size": 16, "num_attention_heads": 4, "intermediate_size": 32}
    settings = {"system_settings": SMALL.get(system), "max_position_embeddings": 48, **shape}
    return PeerConfig(**{"system": system, "num_hidden_layers": 2, "num_labels": 3, **settings, **overrides})
