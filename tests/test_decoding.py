"""Decoding token by token, with and without a cache, for every backend, through forward and `generate`."""

import pytest
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from support import APPROXIMATE, EXACT
from transevolve import TransEvolveConfig, TransEvolveForConditionalGeneration
from transevolve.bench.decode import build, cache_bytes, decode
from transevolve.bench.options import MARIAN, DecodeOptions
from transevolve.evolution.backends import BACKENDS
from transevolve.models.cache import TransEvolveCache

VARIANTS = ["randomFF-1", "randomFF-2", "fullFF-1", "fullFF-2"]
TINY = {"vocab_size": 40, "hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 64, "dropout": 0.0}
LENGTHS = [8, 5, 1]
every_backend = pytest.mark.parametrize("backend", list(BACKENDS))


def tiny(variant: str = "fullFF-2", backend: str = "auto", **options) -> TransEvolveForConditionalGeneration:
    torch.manual_seed(0)
    config = TransEvolveConfig.variant(variant, **{**TINY, "attention": backend, **options})
    return TransEvolveForConditionalGeneration(config).eval()


def source(lengths: list[int] = LENGTHS) -> dict[str, Tensor]:
    """Sentences padded to the longest; a length of 0 is all padding."""
    ids = torch.randint(3, 40, (len(lengths), max(lengths)), generator=torch.Generator().manual_seed(3))
    mask = (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()
    return {"input_ids": ids.masked_fill(mask == 0, 0), "attention_mask": mask}


def targets(rows: int = 3, length: int = 9) -> Tensor:
    return torch.randint(3, 40, (rows, length), generator=torch.Generator().manual_seed(4))


def close(found: Tensor, expected: Tensor) -> None:
    assert torch.isfinite(found).all()
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def in_pieces(model, batch: dict, ids: Tensor, pieces: list[int], mask: Tensor | None = None) -> Tensor:
    cache, found, start = model.new_cache(), [], 0
    for n in pieces:
        seen = None if mask is None else mask[:, : start + n]
        piece = ids[:, start : start + n]
        found.append(model(**batch, decoder_input_ids=piece, decoder_attention_mask=seen, past_key_values=cache).logits)
        start += n
        assert cache.get_seq_length() == start
    return torch.cat(found, 1)


@pytest.mark.parametrize("variant", VARIANTS)
@every_backend
@torch.no_grad()
def test_cached_logits_are_the_uncached(backend, variant):
    model, batch, ids = tiny(variant, backend), source([8, 5, 0]), targets()
    close(in_pieces(model, batch, ids, [4, 1, 1, 3]), model(**batch, decoder_input_ids=ids).logits)


@every_backend
@torch.no_grad()
def test_cached_logits_of_a_padded_prompt(backend):
    model, batch, ids = tiny(backend=backend), source(), targets()
    mask = torch.ones(3, 9, dtype=torch.long)
    mask[1, :2] = 0
    mask[2, 3] = 0
    expected = model(**batch, decoder_input_ids=ids, decoder_attention_mask=mask).logits
    close(in_pieces(model, batch, ids, [4, 1, 1, 2, 1], mask), expected)


@pytest.mark.parametrize(
    "how",
    [{}, {"num_beams": 4}, {"num_beams": 4, "num_return_sequences": 3}, {"do_sample": True, "num_return_sequences": 2}],
)
@every_backend
def test_generate_with_a_cache_is_generate_without(backend, how):
    model, batch = tiny("fullFF-2", backend), source([8, 5, 0])
    found = []
    for use_cache in (True, False):
        torch.manual_seed(1)
        found.append(model.generate(**batch, max_new_tokens=7, use_cache=use_cache, **how))
    assert torch.equal(*found)


@pytest.mark.parametrize(
    ("variant", "how"), [*((variant, {"num_beams": 4}) for variant in VARIANTS), ("randomFF-1", {})]
)
def test_a_padded_batch_translates_as_its_sentences(variant, how):
    model, batch = tiny(variant), source()
    together = model.generate(**batch, max_new_tokens=6, **how)
    for row, length in enumerate(LENGTHS):
        alone = model.generate(batch["input_ids"][row : row + 1, :length], max_new_tokens=6, **how)
        padded = torch.nn.functional.pad(alone[0], (0, together.shape[1] - alone.shape[1]))
        assert torch.equal(together[row], padded)


@every_backend
@torch.no_grad()
def test_only_the_decoder_has_rows_per_beam(backend):
    """Several rows per source give the same result as a repeated source, with and without a cache."""
    model, batch, ids = tiny(backend=backend), source(), targets(rows=6)
    repeated = {k: v.repeat_interleave(2, 0) for k, v in batch.items()}
    expected = model(**repeated, decoder_input_ids=ids).logits
    close(model(**batch, decoder_input_ids=ids).logits, expected)
    close(in_pieces(model, batch, ids, [2, 1, 6]), expected)
    with pytest.raises(ValueError, match="do not divide into beams"):
        model(**batch, decoder_input_ids=ids[:5])


@pytest.mark.parametrize("prompt_mask", [None, [[1, 1], [0, 1], [1, 1]]], ids=["whole", "padded"])
@every_backend
@torch.no_grad()
def test_reordered_beams_continue_their_parents(backend, prompt_mask):
    """Beams that are copied, dropped and reordered, and sentences that end, compared with decoding their sequences."""
    model, batch, beams = tiny(backend=backend), source(), 4
    generator = torch.Generator().manual_seed(5)
    history = torch.randint(3, 40, (3, 2), generator=generator)
    mask = None if prompt_mask is None else torch.tensor(prompt_mask)
    cache = model.new_cache()
    model(**batch, decoder_input_ids=history, decoder_attention_mask=mask, past_key_values=cache)
    width, sentences = 1, torch.arange(3)
    for step in range(5):
        chosen = torch.randint(width, (len(sentences), beams), generator=generator)
        parents = (torch.arange(len(sentences))[:, None] * width + chosen).flatten()
        cache.reorder_cache(parents)
        history, mask, width = history[parents], None if mask is None else mask[parents], beams
        if step == 3:
            keep = torch.tensor([2, 0])
            cache.select(keep, beams)
            rows = (keep[:, None] * beams + torch.arange(beams)).flatten()
            history, mask, sentences = history[rows], None if mask is None else mask[rows], sentences[keep]
        new = torch.randint(3, 40, (len(history), 1 + (step == 2)), generator=generator)
        history = torch.cat([history, new], 1)
        mask = None if mask is None else torch.nn.functional.pad(mask, (0, new.shape[1]), value=1)
        found = model(decoder_input_ids=new, decoder_attention_mask=mask, past_key_values=cache).logits
        left = {k: v[sentences] for k, v in batch.items()}
        expected = model(**left, decoder_input_ids=history, decoder_attention_mask=mask).logits
        close(found, expected[:, -new.shape[1] :])


@pytest.mark.parametrize("backend", EXACT)
@torch.no_grad()
def test_reordering_moves_neither_the_source_nor_the_past(backend):
    model, batch = tiny(backend=backend), source()
    cache = model.new_cache(max_length=20)
    model(**batch, decoder_input_ids=targets(3, 1), past_key_values=cache)
    cache.reorder_cache(torch.arange(3).repeat_interleave(4))
    model(decoder_input_ids=targets(12, 1), past_key_values=cache)
    places = [t.data_ptr() for part in (*cache.prepared, *cache.streams) for t in part.tensors()]
    cache.reorder_cache(torch.tensor([1, 0, 0, 3, 7, 6, 5, 4, 8, 8, 8, 8]))
    assert [t.data_ptr() for part in (*cache.prepared, *cache.streams) for t in part.tensors()] == places
    assert all(keys.values is cache.values for keys in cache.prepared)


@every_backend
def test_the_source_is_kept_once_a_sentence(backend):
    model, batch = tiny(backend=backend), source()
    sizes = [
        model.generate(**batch, max_new_tokens=3, return_dict_in_generate=True, **how).past_key_values.cross_bytes()
        for how in ({}, {"num_beams": 4}, {"do_sample": True, "num_return_sequences": 3})
    ]
    assert len(set(sizes)) == 1


@torch.no_grad()
def test_the_linear_state_does_not_grow():
    model, batch = tiny(backend="linear"), source()
    cache, sizes = model.new_cache(), []
    for length in (1, 1, 5, 20):
        model(**batch, decoder_input_ids=targets(3, length), past_key_values=cache)
        sizes.append((cache.self_bytes(), cache.cross_bytes()))
    assert len(set(sizes)) == 1
    longer = model.new_cache()
    model(**source([30, 2, 3]), decoder_input_ids=targets(3, 1), past_key_values=longer)
    assert longer.cross_bytes() == cache.cross_bytes()


@pytest.mark.parametrize(("variant", "share"), [("fullFF-1", 0.5), ("fullFF-2", 0.65)])
def test_the_cache_is_a_fraction_of_marians(variant, share):
    options = DecodeOptions(size="small", vocab=50)
    ids = torch.randint(3, 50, (2, 12))
    sizes = []
    for system in (variant, MARIAN):
        out = decode(build(system, options), "generate", ids, beams=1, new_tokens=13)
        sizes.append(sum(cache_bytes(out.past_key_values)))
    assert sizes[0] <= share * sizes[1]


@pytest.mark.parametrize("backend", EXACT)
@torch.no_grad()
def test_a_cropped_cache_drops_tokens(backend):
    model, batch, ids = tiny(backend=backend), source(), targets()
    cache = model.new_cache()
    model(**batch, decoder_input_ids=ids[:, :6], past_key_values=cache)
    cache.crop(0)
    cache.crop(-2)
    assert cache.is_croppable
    assert cache.get_seq_length() == 4
    found = model(decoder_input_ids=ids[:, 4:], past_key_values=cache).logits
    close(found, model(**batch, decoder_input_ids=ids).logits[:, 4:])


@pytest.mark.parametrize("backend", EXACT)
@pytest.mark.parametrize("how", ["prompt lookup", "assistant", "assistant itself"])
def test_assisted_decoding_is_greedy_decoding(how, backend, monkeypatch):
    """Candidates are rejected and the cache is cropped; the tokens are those of a plain greedy search."""
    model, batch = tiny("fullFF-2", backend), source([8])
    batch["decoder_input_ids"] = torch.tensor([[1, 5, 6, 7, 5, 6]])
    plain = {**batch, "max_new_tokens": 12, "min_new_tokens": 12}
    assistant = model if how == "assistant itself" else tiny("randomFF-1", backend)
    ask = {"prompt_lookup_num_tokens": 3} if how == "prompt lookup" else {"assistant_model": assistant}
    cropped, crop = [], TransEvolveCache.crop
    monkeypatch.setattr(TransEvolveCache, "crop", lambda cache, n: (cropped.append(n), crop(cache, n)))
    assert torch.equal(model.generate(**plain, **ask), model.generate(**plain))
    assert how == "assistant itself" or min(cropped) < 0


def test_gradients_pass_through_a_cache():
    model, batch, ids = tiny(), source(), targets()
    grads = []
    for run in (lambda: in_pieces(model, batch, ids, [3, 1, 5]), lambda: model(**batch, decoder_input_ids=ids).logits):
        model.zero_grad()
        run().square().mean().backward()
        grads.append([p.grad.clone() for p in model.decoder.parameters()])
    for a, b in zip(*grads, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("backend", EXACT)
def test_attentions_of_beams(backend):
    """With a cache the attentions of each step are those of the newest token, also where beams share their past."""
    model, batch = tiny(backend=backend), source()
    ask = {"num_beams": 3, "max_new_tokens": 4, "min_new_tokens": 4, "output_attentions": True}
    cached, whole = (
        model.generate(**batch, **ask, return_dict_in_generate=True, use_cache=use_cache) for use_cache in (True, False)
    )
    for kind in ("decoder_attentions", "cross_attentions"):
        for step, (a, b) in enumerate(zip(getattr(cached, kind), getattr(whole, kind), strict=True), 1):
            for found, expected in zip(a, b, strict=True):
                assert found.shape[:3] == (9, 4, 1), (kind, step)
                close(found, expected[:, :, -1:])


@torch.no_grad()
def test_attention_to_cached_tokens_is_refused_by_linear():
    model = tiny(backend="linear")
    with pytest.raises(ValueError, match="disable the cache"):
        model(**source(), decoder_input_ids=targets(), use_cache=True, output_attentions=True)


@every_backend
@torch.no_grad()
def test_low_precision(backend):
    model, batch = tiny(backend=backend).bfloat16(), source([8, 5, 0])
    logits = in_pieces(model, batch, targets(), [3, 1, 5])
    assert logits.dtype == torch.bfloat16
    assert torch.isfinite(logits).all()


@torch.no_grad()
def test_the_source_is_encoded_once(monkeypatch):
    model, batch, ids = tiny(), source(), targets()
    out = model(**batch, decoder_input_ids=ids[:, :3], use_cache=True)
    monkeypatch.setattr(model.encoder, "forward", None)
    later = model(**batch, decoder_input_ids=ids[:, 3:4], past_key_values=out.past_key_values)
    assert later.past_key_values is out.past_key_values
    assert (
        model(encoder_outputs=(out.encoder_last_hidden_state,), decoder_input_ids=ids, use_cache=False).past_key_values
        is None
    )


@torch.no_grad()
def test_a_cache_has_one_past_per_block():
    """Not one per layer; and the cache is not a pytree, which would copy data that beams share."""
    model, batch = tiny("fullFF-2"), source()
    cache = model(**batch, decoder_input_ids=targets(), use_cache=True).past_key_values
    assert len(cache) == model.config.decoder_num_blocks == 2 < model.config.num_hidden_layers
    with pytest.raises(TypeError, match="one past per block"):
        cache.layers[0]
    assert tree_leaves(cache) == [cache]


@pytest.mark.usefixtures("unchecked")
def test_other_caches_are_refused():
    model, batch = tiny(), source()
    with pytest.raises(ValueError, match="cache_implementation='static'"):
        model.generate(**batch, max_new_tokens=2, cache_implementation="static")
    with pytest.raises(TypeError, match="must come from new_cache"):
        model(**batch, decoder_input_ids=targets(), past_key_values="mine")
    linear = tiny(backend=APPROXIMATE[0]).new_cache()
    assert not linear.is_croppable
    for call in (linear.reset, linear.update, lambda: linear.batch_repeat_interleave(2)):
        with pytest.raises(NotImplementedError):
            call()


@torch.no_grad()
def test_one_beam_does_not_reorder_the_cache():
    """Greedy search reorders at every token too: each row continues itself, and its past stays where it is."""
    model, batch = tiny(), source()
    cache = model.new_cache(20)
    model(**batch, decoder_input_ids=targets(), past_key_values=cache)
    before = [tensor.data_ptr() for stream in cache.streams for tensor in stream.tensors()]
    cache.reorder_cache(torch.arange(3))
    assert [tensor.data_ptr() for stream in cache.streams for tensor in stream.tensors()] == before
