"""Mamba layers: selective state spaces behind a short convolution.

Source: src/models/mamba-base.cpp (llama.cpp in llama-cpp-python 0.3.36).
"""

from typing import Final

from service.core.engines.llamacpp.compute.node import Node
from service.core.engines.llamacpp.compute.ops import (
    add,
    concat,
    cont,
    cpy,
    glu_split,
    mul,
    mul_mat,
    reshape,
    silu,
    ssm_conv,
    ssm_scan,
    transpose,
    view,
)
from service.core.engines.llamacpp.graphs.blocks.linear import linear
from service.core.engines.llamacpp.graphs.blocks.norms import build_rms_norm
from service.core.engines.llamacpp.graphs.blocks.state import StateInput, build_rs
from service.core.engines.llamacpp.graphs.context import Block, GraphContext

MAMBA2_CYCLE: Final = 6
"""Mamba-2 layers move the hidden state among three addresses, other layers between two."""


def build_mamba(g: GraphContext, inp: StateInput, cur: Node, il: int) -> Node:
    """A Mamba-1 layer (build_mamba_layer): a decay per channel and state element."""
    hp, block, n, n_seqs = g.hp, g.block(il), g.n_seq_tokens, g.n_seqs
    inner, kept = hp.ssm_d_inner, hp.ssm_d_conv - 1
    cells = g.cache("recurrent", il)
    conv = reshape(build_rs(g, inp, cells, hp.n_embd_r, n_seqs), kept, inner, n_seqs)
    cur = reshape(cur, cur.ne[0], n, n_seqs)
    xz = linear(block.need("ssm_in.weight"), cur, block("ssm_in.scale"))
    x = view(xz, (inner, n, n_seqs), xz.nb[1:3])
    z = view(xz, (inner, n, n_seqs), xz.nb[1:3])
    conv = concat(conv, transpose(x), 0)
    last = view(conv, (kept, inner, n_seqs), conv.nb[1:3])
    g.expand(cpy(last, view(cells, (kept * inner * n_seqs,))))
    x = silu(add(ssm_conv(conv, block.need("ssm_conv1d.weight")), block.need("ssm_conv1d.bias")))
    y = _scan(g, inp, block, x, il)
    y = add(y, mul(x, block.need("ssm_d")))
    y = glu_split(cont(z), y)
    cur = linear(block.need("ssm_out.weight"), y, block("ssm_out.scale"))
    return reshape(cur, cur.ne[0], n * n_seqs)


def _scan(g: GraphContext, inp: StateInput, block: Block, x: Node, il: int) -> Node:
    hp, n, n_seqs = g.hp, g.n_seq_tokens, g.n_seqs
    inner, size, rank = hp.ssm_d_inner, hp.ssm_d_state, hp.ssm_dt_rank
    x_db = mul_mat(block.need("ssm_x.weight"), x)
    dt = view(x_db, (rank, n, n_seqs), x_db.nb[1:3])
    b, c = (view(x_db, (size, 1, n, n_seqs), (4 * size, x_db.nb[1], x_db.nb[2])) for _ in range(2))
    norms = [block(f"ssm_{name}_norm.weight") for name in ("dt", "b", "c")]
    if None not in norms or g.metadata.get(g.prefix + "ssm.dt_b_c_rms") is True:
        dt, b, c = (build_rms_norm(g, part, norm, il) for part, norm in zip((dt, b, c), norms, strict=True))
    else:
        dt = cont(dt)
    dt = add(mul_mat(block.need("ssm_dt.weight"), dt), block.need("ssm_dt.bias"))
    channels = reshape(x, 1, inner, n, n_seqs)
    decay, cells = block.need("ssm_a"), g.cache("recurrent", il, second=True)

    def rows(states: Node, ids: Node) -> Node:
        states = reshape(states, size, 1, inner, cells.ne[1])
        return ssm_scan((states, channels, dt, decay, b, c, ids))

    y = build_rs(g, inp, cells, hp.n_embd_s, n_seqs, rows)
    stored = (size * inner * n_seqs,)
    g.expand(cpy(view(y, stored), view(cells, stored)))
    return view(y, (inner, n, n_seqs), channels.nb[2:])


def build_mamba2(g: GraphContext, inp: StateInput, cur: Node, il: int) -> Node:
    """A Mamba-2 layer (build_mamba2_layer): a decay per head; draft snapshots keep the last tokens' states."""
    hp, block, n, n_seqs = g.hp, g.block(il), g.n_seq_tokens, g.n_seqs
    inner, heads = hp.ssm_d_inner, hp.ssm_dt_rank
    width, kept = inner + 2 * hp.ssm_n_group * hp.ssm_d_state, hp.ssm_d_conv - 1
    cells = g.cache("recurrent", il)
    conv = reshape(build_rs(g, inp, cells, hp.n_embd_r, n_seqs), kept, width, n_seqs)
    joint = linear(block.need("ssm_in.weight"), cur, block("ssm_in.scale"))
    joint = reshape(joint, joint.ne[0], n, n_seqs)
    step = joint.nb[1:3]
    z = view(joint, (inner // heads, heads, n, n_seqs), (4 * inner // heads, *step))
    dt = view(joint, (heads, n, n_seqs), step)
    conv = concat(conv, transpose(view(joint, (width, n, n_seqs), step)), 0)
    for _ in range(min(n, g.ctx.n_rs_seq + 1)):
        last = view(conv, (kept, width, n_seqs), conv.nb[1:3])
        g.expand(cpy(last, view(cells, (kept * width, n_seqs), (cells.nb[1],))))
    mixed = silu(add(ssm_conv(conv, block.need("ssm_conv1d.weight")), block.need("ssm_conv1d.bias")))
    y = glu_split(cont(z), _scan2(g, inp, block, mixed, dt, il))
    norm = block("ssm_norm.weight")
    if norm is not None:
        y = build_rms_norm(g, reshape(y, inner // hp.ssm_n_group, hp.ssm_n_group, n, n_seqs), norm, il)
    y = reshape(y, inner, n * n_seqs)
    return linear(block.need("ssm_out.weight"), y, block("ssm_out.scale"))


def _scan2(g: GraphContext, inp: StateInput, block: Block, mixed: Node, dt: Node, il: int) -> Node:
    hp, n, n_seqs = g.hp, g.n_seq_tokens, g.n_seqs
    inner, size, heads, groups = hp.ssm_d_inner, hp.ssm_d_state, hp.ssm_dt_rank, hp.ssm_n_group
    head, snapshots = inner // heads, g.ctx.n_rs_seq + 1
    x = view(mixed, (head, heads, n, n_seqs), (4 * head, *mixed.nb[1:3]))
    b, c = (view(mixed, (size, groups, n, n_seqs), (4 * size, *mixed.nb[1:3])) for _ in range(2))
    dt = add(cont(dt), block.need("ssm_dt.bias"))
    decay, cells = block.need("ssm_a"), g.cache("recurrent", il, second=True)

    def rows(states: Node, ids: Node) -> Node:
        states = reshape(states, size, head, heads, cells.ne[1])
        return ssm_scan((states, x, dt, decay, b, c, ids), snapshots)

    y = build_rs(g, inp, cells, hp.n_embd_s, n_seqs, rows)
    stored = (size * inner, n_seqs, min(n, snapshots))
    new = view(y, stored, (4 * size * inner, 4 * size * inner * n_seqs))
    g.expand(cpy(new, view(cells, stored, (cells.nb[1], cells.nb[1] * inp.n_rs))))
    y = view(y, (head, heads, n, n_seqs), (x.nb[1], heads * x.nb[1], n * heads * x.nb[1]))
    return add(y, mul(x, block.need("ssm_d")))
