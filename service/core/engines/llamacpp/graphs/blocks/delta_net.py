"""Gated delta rule: linear attention with a matrix as state (Gated DeltaNet, Kimi Delta Attention).

Source: src/models/delta-net-base.cpp (llama.cpp in llama-cpp-python 0.3.36).
"""

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
from service.core.engines.llamacpp.graphs.blocks.delta_net_unfused import (
    DeltaRule,
    delta_net_chunked,
    delta_net_stepwise,
)
from service.core.engines.llamacpp.graphs.blocks.state import StateInput, build_rs
from service.core.engines.llamacpp.graphs.context import GraphContext


def l2_norm_of_heads(x: Node) -> Node:
    """L2 norm as a scaled RMS norm (build_gdn_l2_norm, src/models/models.h:14)."""
    return scale(rms_norm(x))


def is_fused(g: GraphContext) -> bool:
    """Whether the delta rule is one operation, for batches of this graph's shape."""
    return ("gdn_ar" if g.n_seq_tokens == 1 else "gdn_ch") in g.fused


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


def build_delta_net(g: GraphContext, rule: DeltaRule, il: int) -> tuple[Node, Node]:
    """The delta rule over a batch: its output [head size, heads, tokens, sequences] and the new state."""
    if is_fused(g):
        result = gated_delta_net(rule)
        g.probe(result, il)
        return _output(result, rule.v), view(result, rule.state.ne, rule.state.nb[1:])
    return delta_net_stepwise(rule) if g.n_seq_tokens == 1 else delta_net_chunked(rule)


def _output(result: Node, v: Node) -> Node:
    size, heads, tokens, sequences = v.ne
    row = 4 * size
    return view(result, (size, heads, tokens, sequences), (row, row * heads, row * heads * tokens))


def build_recurrent_attn(g: GraphContext, inp: StateInput, rule: DeltaRule, il: int) -> Node:
    """The delta rule over a batch, its new states stored: [head size, heads, tokens, sequences].

    With draft snapshots the fused operation also returns the states of the last tokens.
    """
    cells = g.cache("recurrent", il, second=True)
    width, n_seqs = cells.ne[0], g.n_seqs
    if g.ctx.n_rs_seq == 0:
        output, new = build_delta_net(g, rule, il)
        g.expand(cpy(new, view(cells, (width, n_seqs), (cells.nb[1],))))
        return output
    snapshots = g.ctx.n_rs_seq + 1
    result = gated_delta_net(rule, snapshots)
    g.probe(result, il)
    written = min(g.n_seq_tokens, snapshots)
    new = view(result, (width, n_seqs, written), (4 * width, 4 * width * n_seqs))
    g.expand(cpy(new, view(cells, (width, n_seqs, written), (cells.nb[1], cells.nb[1] * inp.n_rs))))
    return _output(result, rule.v)
