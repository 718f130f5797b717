"""RWKV 6, and Qwen 2 with its time mix."""

from functools import partial

from service.core.engines.llamacpp.compute.node import Node
from service.core.engines.llamacpp.compute.ops import (
    add,
    cont,
    custom,
    exp,
    mul,
    mul_mat,
    neg,
    norm,
    permute,
    relu,
    repeat_4d,
    reshape,
    sigmoid,
    silu,
    sqr,
    sub,
    tanh,
    view,
)
from service.core.engines.llamacpp.graphs import graph
from service.core.engines.llamacpp.graphs.blocks import StateInput, project, token_embeddings
from service.core.engines.llamacpp.graphs.blocks.token_shift import (
    attentionless_decoder,
    load_state,
    rwkv_decoder,
    store_state,
)
from service.core.engines.llamacpp.graphs.context import Block, GraphContext


@graph("rwkv6")
def rwkv6(g: GraphContext) -> None:
    """src/models/rwkv6.cpp."""
    rwkv_decoder(g, token_embeddings(g), partial(_time_mix, g), _channel_mix)


@graph("rwkv6qwen2")
def rwkv6qwen2(g: GraphContext) -> None:
    """src/models/rwkv6qwen2.cpp."""
    attentionless_decoder(g, token_embeddings(g), partial(_time_mix, g))


def _channel_mix(block: Block, cur: Node, previous: Node) -> Node:
    """build_rwkv6_channel_mix, src/models/rwkv6-base.cpp:9."""
    change = sub(previous, cur)
    k, r = (add(mul(change, block.need(f"channel_mix_lerp_{name}.weight")), cur) for name in "kr")
    receptance = sigmoid(mul_mat(block.need("channel_mix_receptance.weight"), r))
    k = sqr(relu(mul_mat(block.need("channel_mix_key.weight"), k)))
    return mul(receptance, mul_mat(block.need("channel_mix_value.weight"), k))


def _time_mix(g: GraphContext, states: StateInput, block: Block, cur: Node, previous: Node, il: int) -> Node:
    """build_rwkv6_time_mix, src/models/rwkv6-base.cpp:33."""
    n_tokens, width, size = g.n_tokens, g.n_embd, g.hp.wkv_head_size
    heads = width // size
    first = block("time_mix_first.weight")
    change = reshape(sub(previous, cur), width, n_tokens)
    w, k, v, r, gate = _mixes(g, block, reshape(cur, width, n_tokens), change)
    r, k, v = (project(block, f"time_mix_{name}", x) for name, x in (("receptance", r), ("key", k), ("value", v)))
    gate = mul_mat(block.need("time_mix_gate.weight"), gate)
    gate = sigmoid(gate) if first is None else silu(gate)
    heads_kv = g.hp.n_head_kv[il]
    if heads_kv not in (0, heads):
        k, v = (
            repeat_4d(reshape(x, size, 1, heads_kv, n_tokens), size, heads // heads_kv, heads_kv, n_tokens)
            for x in (k, v)
        )
    k, v, r = (reshape(x, size, heads, n_tokens) for x in (k, v, r))
    w = mul_mat(block.need("time_mix_decay_w2.weight"), tanh(mul_mat(block.need("time_mix_decay_w1.weight"), w)))
    w = exp(neg(exp(add(w, block.need("time_mix_decay.weight")))))
    w = reshape(w, size, heads, n_tokens)
    if first is None:
        k = sub(k, mul(k, w))
    state = load_state(g, states, il)
    srcs = (k, v, r, w, state) if first is None else (k, v, r, first, w, state)
    cur = store_state(g, custom((width, n_tokens + size * g.n_seqs, 1, 1), srcs), il)
    if first is not None:
        cur = reshape(norm(reshape(cur, size, heads, n_tokens)), width, n_tokens)
        cur = add(mul(cur, block.need("time_mix_ln.weight")), block.need("time_mix_ln.bias"))
    else:
        cur = reshape(cur, width, n_tokens)
    cur = mul_mat(block.need("time_mix_output.weight"), mul(cur, gate))
    return reshape(cur, width, g.n_seq_tokens, g.n_seqs)


def _mixes(g: GraphContext, block: Block, cur: Node, change: Node) -> list[Node]:
    """Inputs of decay, key, value, receptance and gate: mixes of each token and the one before it."""
    n_tokens, width = g.n_tokens, g.n_embd
    w1, w2 = block.need("time_mix_w1.weight"), block.need("time_mix_w2.weight")
    x = add(mul(change, block.need("time_mix_lerp_x.weight")), cur)
    x = reshape(tanh(mul_mat(w1, x)), w1.ne[1] // 5, 1, 5, n_tokens)
    x = mul_mat(reshape(w2, w2.ne[0], w2.ne[1], 1, 5), cont(permute(x, 0, 1, 3, 2)))
    fused = block("time_mix_lerp_fused.weight")
    if fused is not None:
        x = add(mul(add(x, fused), reshape(change, width, 1, n_tokens)), reshape(cur, width, 1, n_tokens))
    parts = [view(x, (width, n_tokens), (x.nb[1],)) for _ in range(5)]
    if fused is None:
        parts = [
            add(mul(add(part, block.need(f"time_mix_lerp_{name}.weight")), change), cur)
            for name, part in zip("wkvrg", parts, strict=True)
        ]
    return parts
