"""Recurrent state: reading, clearing and copying it.

Source: build_rs, build_rs_inp and build_rwkv_token_shift_*, src/llama-graph.cpp:3650-3770
(llama.cpp in llama-cpp-python 0.3.36).
"""

from collections.abc import Callable
from dataclasses import dataclass

from service.core.engines.llamacpp.compute.node import I32, Node
from service.core.engines.llamacpp.compute.ops import cpy, get_rows, reshape, scale_inplace, view
from service.core.engines.llamacpp.graphs.context import GraphContext

GetRows = Callable[[Node, Node], Node]


@dataclass(frozen=True, slots=True, kw_only=True)
class StateInput:
    """Which states the batch's sequences continue (main), and those that only move (extra: none at reserve)."""

    main: Node
    extra: Node
    n_rs: int


def state_input(g: GraphContext) -> StateInput:
    """build_rs_inp: one state cell per sequence of the context."""
    n_rs = max(1, g.ctx.n_seq_max)
    copy = g.input("rs_s_copy", I32, n_rs)
    return StateInput(main=view(copy, (g.n_seqs,)), extra=view(copy, (n_rs - g.n_seqs,)), n_rs=n_rs)


def build_rs(
    g: GraphContext, inp: StateInput, state: Node, state_size: int, n_seqs: int, rows: GetRows = get_rows
) -> Node:
    """States of the batch's sequences: [state_size, n_seqs], from a cache tensor [width, rows].

    rows: how they are gathered. A cleared state and those that only move are written back on the way.
    """
    states = reshape(state, state_size, state.ne[1])
    g.expand(scale_inplace(view(states, (state_size,))))
    output = rows(states, inp.main)
    g.expand(output)
    extra = get_rows(states, inp.extra)
    g.expand(cpy(extra, view(state, (state_size, inp.n_rs - n_seqs), (state.nb[1],))))
    return output


def load_token_shift(g: GraphContext, inp: StateInput, il: int) -> Node:
    """build_rwkv_token_shift_load: [embedding, shifts, sequences]."""
    state = g.cache("recurrent", il)
    shift = build_rs(g, inp, state, g.hp.n_embd_r, g.n_seqs)
    return reshape(shift, g.hp.n_embd, g.hp.token_shift_count, g.n_seqs)


def store_token_shift(g: GraphContext, shift: Node, il: int) -> Node:
    """build_rwkv_token_shift_store."""
    n = g.hp.n_embd * g.n_seqs * g.hp.token_shift_count
    return cpy(view(shift, (n,)), view(g.cache("recurrent", il), (g.hp.n_embd_r * g.n_seqs,)))
