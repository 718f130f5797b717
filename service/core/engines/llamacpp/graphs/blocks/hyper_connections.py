"""Hyper-connections: several residual streams, merged before each half of a block and updated behind it.

Source: build_hc_pre, build_hc_post and build_hc_head, src/models/deepseek4.cpp:287-460, and ggml_dsv4_hc_*,
ggml/src/ggml.c:6466-6620 (llama.cpp in llama-cpp-python 0.3.36).
"""

from dataclasses import dataclass

from service.core.engines.llamacpp.compute.node import I32, Node
from service.core.engines.llamacpp.compute.ops import (
    add,
    concat,
    custom,
    get_rows,
    mul,
    mul_mat,
    repeat_4d,
    reshape,
    rms_norm,
    scale,
    sigmoid,
    view,
)
from service.core.engines.llamacpp.graphs.context import Block, GraphContext


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixing:
    """How streams take up a result (post) and each other (comb)."""

    post: Node
    comb: Node


def spread_streams(g: GraphContext, cur: Node) -> Node:
    """Every stream starts as the embedded tokens: [embedding, streams, tokens]."""
    return repeat_4d(reshape(cur, g.n_embd, 1, g.n_tokens), g.n_embd, g.hp.dsv4_hc_mult, g.n_tokens, 1)


def merge_streams(g: GraphContext, block: Block, name: str, streams: Node) -> tuple[Node, Mixing]:
    """The input of the half block whose weights are `<name>_*`, and how its result is to be mixed in.

    The fused operations are used (llama_context::resolve_fused_ops finds them where the block is).
    """
    n, n_tokens = g.hp.dsv4_hc_mult, streams.ne[2]
    factor, base = block.need(name + "_scale.weight"), block.need(name + "_base.weight")
    mixes = mul_mat(block.need(name + "_fn.weight"), rms_norm(reshape(streams, n * g.n_embd, n_tokens)))

    def gate() -> Node:
        part = view(mixes, (n, n_tokens), (mixes.nb[1],))
        return scale(sigmoid(add(mul(part, view(factor, (1,))), view(base, (n,)))))

    pre, post = gate(), gate()
    comb = custom((n, n, n_tokens, 1), (mixes, factor, base))
    return custom((g.n_embd, n_tokens, 1, 1), (streams, pre)), Mixing(post=post, comb=comb)


def update_streams(cur: Node, streams: Node, mixing: Mixing) -> Node:
    """The streams after a half block with result `cur`."""
    return custom((*streams.ne[:3], 1), (cur, streams, mixing.post, mixing.comb))


def update_untied_streams(g: GraphContext, cur: Node, streams: Node, mixing: Mixing, il: int) -> Node:
    """The same where nothing ties a block's last result down: it may run elsewhere, and then it is not fused."""
    if g.fused_post:
        updated = update_streams(cur, streams, mixing)
        g.probe(updated, il)
        return updated
    return update_streams_apart(cur, streams, mixing)


def update_streams_apart(cur: Node, streams: Node, mixing: Mixing) -> Node:
    """The same in elementary operations, stream by stream."""
    width, n, n_tokens, _ = streams.ne
    post, comb = mixing.post, mixing.comb
    joined: Node | None = None
    for _ in range(n):
        part = mul(cur, view(post, (1, n_tokens), (post.nb[1],)))
        for _ in range(n):
            source = view(streams, (width, n_tokens), (streams.nb[2],))
            part = add(part, mul(source, view(comb, (1, n_tokens), (comb.nb[2],))))
        part = reshape(part, width, 1, n_tokens)
        joined = part if joined is None else concat(joined, part, 1)
    return streams if joined is None else joined


def wanted_rows(g: GraphContext, streams: Node) -> Node:
    """All streams of the tokens whose logits are wanted."""
    n = g.hp.dsv4_hc_mult
    rows = get_rows(reshape(streams, g.n_embd * n, g.n_tokens), g.input("out_ids", I32, g.n_outputs))
    return reshape(rows, g.n_embd, n, g.n_outputs)


def merge_at_output(g: GraphContext, streams: Node) -> Node:
    """The streams merged into one, without fused operations."""
    n, n_rows = g.hp.dsv4_hc_mult, streams.ne[2]
    fn, factor, base = (g.output_weight(f"output_hc_{part}.weight") for part in ("fn", "scale", "base"))
    if fn is None or factor is None or base is None:
        raise KeyError("output_hc_fn.weight")
    mixes = mul_mat(fn, rms_norm(reshape(streams, n * g.n_embd, n_rows)))
    weights = scale(sigmoid(add(mul(mixes, factor), base)))
    parts = [_weighted_stream(streams, weights) for _ in range(n)]
    cur = parts[0]
    for part in parts[1:]:
        cur = add(cur, part)
    return cur


def _weighted_stream(streams: Node, weights: Node) -> Node:
    n_embd, _, n_tokens, _ = streams.ne
    stream = view(streams, (n_embd, n_tokens), (streams.nb[2],))
    return mul(stream, view(weights, (1, n_tokens), (weights.nb[1],)))
