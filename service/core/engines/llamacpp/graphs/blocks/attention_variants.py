"""Attention over windowed and latent caches, and without a cache.

Source: build_attn, src/llama-graph.cpp:2775-2825, 2950-3020, 3080-3260, 3290-3330
(llama.cpp in llama-cpp-python 0.3.36).
"""

from dataclasses import dataclass

from service.core.engines.llamacpp.compute.node import Node
from service.core.engines.llamacpp.compute.ops import view
from service.core.engines.llamacpp.graphs.blocks.attention import (
    hadamard,
    mha,
    output_projection,
    read_k,
    read_v,
    store_rows,
    store_transposed,
)
from service.core.engines.llamacpp.graphs.blocks.inputs import AttentionInput, attention_input, mask_input
from service.core.engines.llamacpp.graphs.context import Block, GraphContext


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowedInput:
    """Inputs of attention over a full and a sliding-window cache."""

    base: AttentionInput
    swa: AttentionInput


def windowed_input(g: GraphContext) -> WindowedInput:
    """build_attn_inp_kv_iswa (and build_attn_inp_k_iswa)."""
    return WindowedInput(base=attention_input(g), swa=attention_input(g, "swa"))


def build_attn_windowed(
    g: GraphContext,
    inp: WindowedInput,
    block: Block | None,
    q: Node,
    k: Node | None,
    v: Node | None,
    il: int,
    *,
    cache_il: int | None = None,
    bias: Node | None = None,
    sinks: Node | None = None,
) -> Node:
    """build_attn with llm_graph_input_attn_kv_iswa: K is expanded before V.

    k, v: None where the block reuses the cells of block `cache_il`.
    """
    one = inp.swa if g.hp.is_swa[il] else inp.base
    if one.k_rot is not None:
        q = hadamard(q, one.k_rot)
        k = None if k is None else hadamard(k, one.k_rot)
    if one.v_rot is not None and v is not None:
        v = hadamard(v, one.v_rot)
    for node in (q, k, v):
        if node is not None:
            g.expand(node)
    owner = il if cache_il is None else cache_il
    cells_k, cells_v = g.cache(one.kind, owner), g.cache(one.kind, owner, second=True)
    if k is not None:
        g.expand(store_rows(cells_k, k, one.k_idxs))
    if v is not None:
        store = store_transposed if g.ctx.v_padded else store_rows
        g.expand(store(cells_v, v, one.v_idxs))
    cur = mha(g, q, read_k(g, cells_k, il), read_v(g, cells_v, il), one.mask, bias=bias, sinks=sinks)
    if one.v_rot is not None:
        cur = hadamard(cur, one.v_rot)
    return cur if block is None else output_projection(block, cur)


def build_attn_latent(
    g: GraphContext,
    inp: AttentionInput,
    block: Block | None,
    q: Node,
    k: Node,
    v: Node,
    il: int,
    *,
    v_mla: Node | None = None,
    sinks: Node | None = None,
) -> Node:
    """build_attn with llm_graph_input_attn_k: K alone is cached, and V is a part of it.

    No rotations are used here, whatever the cache's type.
    """
    g.expand(q)
    g.expand(v)
    g.expand(k)
    cells = g.cache(inp.kind, il)
    g.expand(store_rows(cells, k, inp.k_idxs))
    keys = read_k(g, cells, il)
    values = view(keys, (v.ne[0], *keys.ne[1:]), keys.nb[1:])
    cur = mha(g, q, keys, values, inp.mask, sinks=sinks, v_mla=v_mla)
    return cur if block is None else output_projection(block, cur)


def build_attn_latent_windowed(
    g: GraphContext,
    inp: WindowedInput,
    block: Block | None,
    q: Node,
    k: Node | None,
    v_head: int,
    il: int,
    *,
    cache_il: int | None = None,
    v_mla: Node | None = None,
    sinks: Node | None = None,
) -> Node:
    """build_attn with llm_graph_input_attn_k_iswa; v_head: elements of a value row."""
    one = inp.swa if g.hp.is_swa[il] else inp.base
    if one.k_rot is not None:
        q = hadamard(q, one.k_rot)
        k = None if k is None else hadamard(k, one.k_rot)
    g.expand(q)
    cells = g.cache(one.kind, il if cache_il is None else cache_il)
    if k is not None:
        g.expand(k)
        g.expand(store_rows(cells, k, one.k_idxs))
    keys = read_k(g, cells, il)
    values = view(keys, (v_head, *keys.ne[1:]), keys.nb[1:])
    cur = mha(g, q, keys, values, one.mask, sinks=sinks, v_mla=v_mla)
    if one.k_rot is not None:
        cur = hadamard(cur, one.k_rot)
    return cur if block is None else output_projection(block, cur)


def uncached_mask(g: GraphContext, *, windowed: bool = False) -> Node:
    """Mask of tokens among themselves (build_attn_inp_no_cache); `windowed` the sliding-window one."""
    return mask_input(g, "mask_no_cache_swa" if windowed else "mask_no_cache", (g.n_tokens, g.n_tokens, 1, 1))


def build_attn_uncached(
    g: GraphContext,
    mask: Node,
    block: Block | None,
    q: Node,
    k: Node,
    v: Node,
    *,
    bias: Node | None = None,
    sinks: Node | None = None,
) -> Node:
    """build_attn with llm_graph_input_attn_no_cache and, with the cross mask, llm_graph_input_attn_cross."""
    for node in (q, k, v):
        g.expand(node)
    cur = mha(g, q, k, v, mask, bias=bias, sinks=sinks)
    return cur if block is None else output_projection(block, cur)
