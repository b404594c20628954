"""Systems compared with other people's implementations, with copied weights. Some need the group `oracles`."""

import pytest
import torch
from torch import Tensor

from transevolve.peers import Mixer, MixerShape, build_mixer

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

HIDDEN, HEADS, PART = 32, 4, 8


def mixer_of(system: str, n: int, **settings) -> Mixer:
    return build_mixer(system, MixerShape(HIDDEN, HEADS, n), settings)


def copy_projections(mixer: Mixer, theirs: torch.nn.Module, *names: str) -> None:
    """Their queries, keys and values without biases, and an output that changes nothing."""
    linears = [getattr(theirs, name) for name in names]
    with torch.no_grad():
        mixer.projections.weight.copy_(torch.cat([linear.weight for linear in linears]))
        mixer.output.weight.copy_(torch.eye(HIDDEN))
        for linear in linears:
            if linear.bias is not None:
                linear.bias.zero_()


def same(mixer: Mixer, ours: Tensor, theirs: Tensor, x: Tensor, tolerance: float = 1e-5) -> None:
    """Values, and gradients by the input."""
    torch.testing.assert_close(ours, theirs, rtol=0, atol=tolerance * float(theirs.abs().max()))
    weights = torch.randn_like(ours)
    one, other = (torch.autograd.grad((y * weights).sum(), x)[0] for y in (ours, theirs))
    torch.testing.assert_close(one, other, rtol=0, atol=20 * tolerance * float(other.abs().max()))


def test_fnet():
    from transformers import FNetConfig
    from transformers.models.fnet.modeling_fnet import FNetBasicFourierTransform

    x = torch.randn(2, 24, HIDDEN, requires_grad=True)
    theirs = FNetBasicFourierTransform(FNetConfig(hidden_size=HIDDEN))(x)[0] / (24 * HIDDEN) ** 0.5
    mixer = mixer_of("fnet", 24)
    same(mixer, mixer(x), theirs, x)


def test_nystromformer():
    from transformers import NystromformerConfig
    from transformers.models.nystromformer.modeling_nystromformer import NystromformerSelfAttention

    config = NystromformerConfig(
        hidden_size=HIDDEN,
        num_attention_heads=HEADS,
        num_landmarks=6,
        segment_means_seq_len=48,
        conv_kernel_size=5,
        attention_probs_dropout_prob=0.0,
    )
    attention = NystromformerSelfAttention(config)
    attention.init_option = "exact"
    mixer = mixer_of("nystromformer", 48, landmarks=6, kernel=5)
    copy_projections(mixer, attention, "query", "key", "value")
    with torch.no_grad():
        mixer.convolution.copy_(attention.conv.weight)
    x = torch.randn(2, 48, HIDDEN, requires_grad=True)
    same(mixer, mixer(x), attention(x)[0], x, 1e-4)


@pytest.mark.parametrize("hashes", [1, 3])
def test_reformer(hashes):
    """Tokens of the first chunk of a round are left out: theirs wraps around to the last."""
    from transformers import ReformerConfig
    from transformers.models.reformer.modeling_reformer import LSHSelfAttention

    n, chunk = 48, 8
    config = ReformerConfig(
        hidden_size=HIDDEN,
        num_attention_heads=HEADS,
        attention_head_size=PART,
        lsh_attn_chunk_length=chunk,
        num_hashes=hashes,
        num_buckets=6,
        lsh_attention_probs_dropout_prob=0.0,
        is_decoder=False,
    )
    attention = LSHSelfAttention(config, layer_idx=0)
    mixer = mixer_of("reformer", n, chunk=chunk, hashes=hashes)
    with torch.no_grad():
        mixer.query.weight.copy_(attention.query_key.weight)
        mixer.value.weight.copy_(attention.value.weight)
        mixer.output.weight.copy_(torch.eye(HIDDEN))
    x = torch.randn(2, n, HIDDEN, requires_grad=True)
    q = mixer.query(x).unflatten(-1, (HEADS, -1)).transpose(1, 2)
    found = mixer.buckets(q, None)
    rounds = torch.arange(hashes)[:, None] * 6
    theirs = attention(x, num_hashes=hashes, buckets=(found + rounds).flatten(2)).hidden_states
    rank = found.argsort(dim=-1, stable=True).argsort(-1)
    later = (rank >= chunk).all(2).mT[..., None].expand(-1, -1, -1, PART).flatten(2)
    assert later.float().mean() > 0.4
    same(mixer, mixer(x) * later, theirs * later, x, 1e-4)


def test_bigbird():
    """Their second global block is the last: padded, it hides, and ours has one global block."""
    from transformers import BigBirdConfig
    from transformers.models.big_bird.modeling_big_bird import BigBirdBlockSparseAttention, BigBirdModel

    block, blocks = 4, 12
    n = block * blocks
    config = BigBirdConfig(
        hidden_size=HIDDEN,
        num_attention_heads=HEADS,
        block_size=block,
        num_random_blocks=2,
        attention_probs_dropout_prob=0.0,
    )
    attention = BigBirdBlockSparseAttention(config, seed=0).train()
    mixer = mixer_of("bigbird", n, block=block, global_blocks=1, random_blocks=2)
    copy_projections(mixer, attention, "query", "key", "value")
    real = torch.arange(n)[None].expand(2, -1) < n - block
    drawn, found = mixer.draw(real.unflatten(1, (-1, block)).any(-1))
    assert found[:, :, : blocks - 2].all()
    attention._bigbird_block_rand_mask_with_head = lambda **_: [head[: blocks - 2].numpy() for head in drawn[0]]
    blocked, band, start, end = BigBirdModel.create_masks_for_block_sparse_attn(real.float(), block)
    x = torch.randn(2, n, HIDDEN, requires_grad=True)
    theirs, _ = attention(
        x, band_mask=band, from_mask=start, to_mask=end, from_blocked_mask=blocked, to_blocked_mask=blocked
    )
    shown = real[..., None]
    same(mixer, mixer(x, ~real) * shown, theirs * shown, x)


def test_linformer():
    module = pytest.importorskip("linformer")
    attention = module.LinformerSelfAttention(HIDDEN, 40, k=7, heads=HEADS)
    mixer = mixer_of("linformer", 40, rank=7)
    copy_projections(mixer, attention, "to_q", "to_k", "to_v")
    with torch.no_grad():
        mixer.length_projections.copy_(torch.stack([attention.proj_k.mT, attention.proj_v.mT]))
        mixer.output.weight.copy_(attention.to_out.weight)
        attention.to_out.bias.zero_()
    x = torch.randn(2, 40, HIDDEN, requires_grad=True)
    same(mixer, mixer(x), attention(x), x)


def test_performer():
    module = pytest.importorskip("performer_pytorch.performer_pytorch")
    mixer = mixer_of("performer", 40, features=24)
    with torch.no_grad():
        mixer.output.weight.copy_(torch.eye(HIDDEN))
    x = torch.randn(2, 40, HIDDEN, requires_grad=True)
    q, k, v = mixer.projections(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)

    def features(t, is_query):
        return module.softmax_kernel(t, projection_matrix=mixer.directions, is_query=is_query, eps=0.0, device=t.device)

    theirs = module.linear_attention(features(q, True), features(k, False), v).transpose(1, 2).flatten(2)
    same(mixer, mixer(x), theirs, x, 1e-4)
