"""RWKV 7, and Qwen 2 with its time mix."""

from functools import partial

from service.core.architectures.hparams import Hparams
from service.core.engines.llamacpp.compute.node import Node
from service.core.engines.llamacpp.compute.ops import (
    add,
    custom,
    exp,
    l2_norm,
    mul,
    mul_mat,
    neg,
    norm,
    relu,
    repeat_4d,
    reshape,
    scale,
    sigmoid,
    sqr,
    sub,
    sum_rows,
    tanh,
    view,
)
from service.core.engines.llamacpp.graphs import graph
from service.core.engines.llamacpp.graphs.blocks import StateInput, token_embeddings
from service.core.engines.llamacpp.graphs.blocks.token_shift import (
    attentionless_decoder,
    load_state,
    rwkv_decoder,
    store_state,
)
from service.core.engines.llamacpp.graphs.context import Block, GraphContext

_FIRST_VALUE = "first_layer_value"


def _is_first(_hp: Hparams, il: int) -> bool:
    """The first block's values are added to those of all others."""
    return il == 0


@graph("rwkv7", layer_key=_is_first)
def rwkv7(g: GraphContext) -> None:
    """src/models/rwkv7.cpp."""
    rwkv_decoder(g, token_embeddings(g), partial(_time_mix, g), _channel_mix)


@graph("arwkv7", layer_key=_is_first)
def arwkv7(g: GraphContext) -> None:
    """src/models/arwkv7.cpp."""
    attentionless_decoder(g, token_embeddings(g), partial(_time_mix, g))


def _channel_mix(block: Block, cur: Node, previous: Node) -> Node:
    """build_rwkv7_channel_mix, src/models/rwkv7-base.cpp:9."""
    k = add(mul(sub(previous, cur), block.need("channel_mix_lerp_k.weight")), cur)
    k = sqr(relu(mul_mat(block.need("channel_mix_key.weight"), k)))
    return mul_mat(block.need("channel_mix_value.weight"), k)


def _time_mix(g: GraphContext, states: StateInput, block: Block, cur: Node, previous: Node, il: int) -> Node:
    """build_rwkv7_time_mix, src/models/rwkv7-base.cpp:29."""
    n_tokens, width, size = g.n_tokens, g.n_embd, g.hp.wkv_head_size
    shape = (size, width // size, n_tokens)
    gated = block.has("time_mix_g1.weight") and block.has("time_mix_g2.weight")
    change = repeat_4d(sub(previous, cur), width, g.n_seq_tokens, g.n_seqs, 6 if gated else 5)
    mixed = add(mul(change, block.need("time_mix_lerp_fused.weight")), cur)
    xr, xw, xk, xv, xa, xg = (view(mixed, (width, n_tokens), (mixed.nb[1],)) for _ in range(6))
    r = mul_mat(block.need("time_mix_receptance.weight"), xr)
    w = mul_mat(block.need("time_mix_w2.weight"), tanh(mul_mat(block.need("time_mix_w1.weight"), xw)))
    w = exp(scale(sigmoid(add(w, block.need("time_mix_w0.weight")))))
    k = mul_mat(block.need("time_mix_key.weight"), xk)
    v = _value(g, block, mul_mat(block.need("time_mix_value.weight"), xv), xv)
    a = sigmoid(add(_low_rank(block, "a", xa), block.need("time_mix_a0.weight")))
    kk = l2_norm(reshape(mul(k, block.need("time_mix_k_k.weight")), *shape))
    ka = mul(k, block.need("time_mix_k_a.weight"))
    k = add(k, sub(mul(a, ka), ka))
    r, w, k, v, a = (reshape(x, *shape) for x in (r, w, k, v, a))
    srcs = (r, w, k, v, neg(kk), mul(kk, a), load_state(g, states, il))
    cur = store_state(g, custom((width, n_tokens + size * g.n_seqs, 1, 1), srcs), il)
    ln, ln_bias = block("time_mix_ln.weight"), block("time_mix_ln.bias")
    if ln is not None and ln_bias is not None:
        cur = reshape(norm(reshape(cur, *shape)), width, n_tokens)
        cur = add(mul(cur, ln), ln_bias)
    else:
        cur = reshape(cur, width, n_tokens)
    bonus = sum_rows(mul(mul(k, r), reshape(block.need("time_mix_r_k.weight"), *shape[:2])))
    cur = add(cur, reshape(mul(v, bonus), width, n_tokens))
    if gated:
        gate = sigmoid(mul_mat(block.need("time_mix_g1.weight"), xg))
        cur = mul(cur, mul_mat(block.need("time_mix_g2.weight"), gate))
    cur = mul_mat(block.need("time_mix_output.weight"), cur)
    return reshape(cur, width, g.n_seq_tokens, g.n_seqs)


def _low_rank(block: Block, name: str, x: Node) -> Node:
    return mul_mat(block.need(f"time_mix_{name}2.weight"), mul_mat(block.need(f"time_mix_{name}1.weight"), x))


def _value(g: GraphContext, block: Block, v: Node, xv: Node) -> Node:
    """Values with the first block's as a residual."""
    first = g.memo.setdefault(_FIRST_VALUE, v)
    if first is v:
        return v
    share = sigmoid(add(_low_rank(block, "v", xv), block.need("time_mix_v0.weight")))
    return add(v, mul(sub(first, v), share))
