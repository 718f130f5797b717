"""Gated delta rule: linear attention with a matrix as state (Gated DeltaNet, Kimi Delta Attention).

Source: src/models/delta-net-base.cpp (llama.cpp in llama-cpp-python 0.3.36).
"""

from typing import NamedTuple

from service.core.engines.llamacpp.compute.node import Node
from service.core.engines.llamacpp.compute.ops import (
    concat,
    cpy,
    gated_delta_net,
    reshape,
    rms_norm,
    scale,
    transpose,
    view,
)
from service.core.engines.llamacpp.graphs.blocks.state import StateInput, build_rs
from service.core.engines.llamacpp.graphs.context import GraphContext


class DeltaRule(NamedTuple):
    """Operands of the rule.

    q, k, v: [head size, heads, tokens, sequences]; decay: [1 or head size, heads, tokens, sequences]; beta: [1, heads,
    tokens, sequences]; state: [head size, head size, heads, sequences].
    """

    q: Node
    k: Node
    v: Node
    decay: Node
    beta: Node
    state: Node


def l2_norm_of_heads(x: Node) -> Node:
    """L2 norm as a scaled RMS norm (build_gdn_l2_norm, src/models/models.h:14)."""
    return scale(rms_norm(x))


def build_conv_state(g: GraphContext, inp: StateInput, mixed: Node, il: int) -> Node:
    """Rolling state before the new columns: [kernel - 1 + tokens, channels, sequences]; the last columns are stored.

    mixed: [channels, tokens, sequences]. With draft snapshots the states of the last tokens are stored as well.
    """
    cells = g.cache("recurrent", il)
    kept, channels = g.hp.ssm_d_conv - 1, mixed.ne[0]
    state = build_rs(g, inp, cells, g.hp.n_embd_r, g.n_seqs)
    state = reshape(state, kept, channels, g.n_seqs)
    conv = concat(state, transpose(mixed), 0)
    for _ in range(g.ctx.n_rs_seq + 1):
        last = view(conv, (kept, channels, g.n_seqs), conv.nb[1:3])
        g.expand(cpy(last, view(cells, (kept * channels, g.n_seqs), (cells.nb[1],))))
    return conv


def build_recurrent_attn(g: GraphContext, inp: StateInput, rule: DeltaRule, il: int) -> Node:
    """The delta rule over a batch, its new states stored: [head size, heads, tokens, sequences].

    One operation computes both (cparams.fused_gdn_ar and _ch, src/llama-context.cpp:233-235); with draft snapshots it
    also returns the states of the last tokens.
    """
    cells = g.cache("recurrent", il, second=True)
    width, n_seqs, snapshots = cells.ne[0], g.n_seqs, g.ctx.n_rs_seq + 1
    size, heads, tokens, _ = rule.v.ne
    result = gated_delta_net(rule, snapshots)
    if snapshots == 1:
        new, stored = view(result, rule.state.ne, rule.state.nb[1:]), view(cells, (width, n_seqs), (cells.nb[1],))
    else:
        written = (width, n_seqs, min(g.n_seq_tokens, snapshots))
        new = view(result, written, (4 * width, 4 * width * n_seqs))
        stored = view(cells, written, (cells.nb[1], cells.nb[1] * inp.n_rs))
    g.expand(cpy(new, stored))
    row = 4 * size
    return view(result, (size, heads, tokens, n_seqs), (row, row * heads, row * heads * tokens))
