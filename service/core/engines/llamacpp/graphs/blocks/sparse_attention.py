"""Sparse latent attention: an indexer with a cache of its own picks the cells that each token attends to.

Source: build_attn with llm_graph_input_attn_k_dsa, src/llama-graph.cpp:3022-3105, 3334-3373, and the lightning indexer
in src/models/deepseek32.cpp:215-315 (llama.cpp in llama-cpp-python 0.3.36).
"""

from dataclasses import dataclass

from service.core.engines.llamacpp.compute.node import F16, F32, I64, Node, leaf
from service.core.engines.llamacpp.compute.ops import (
    add,
    cont,
    custom,
    fill,
    mul_mat,
    reshape,
    rope,
    scale,
    set_rows,
    top_k,
    view,
)
from service.core.engines.llamacpp.graphs.blocks.attention import mha, output_projection, read_k, store_rows
from service.core.engines.llamacpp.graphs.blocks.inputs import AttentionInput, attention_mask, rotation_width
from service.core.engines.llamacpp.graphs.blocks.norms import build_layer_norm
from service.core.engines.llamacpp.graphs.context import Block, GraphContext
from service.core.types import TensorType


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexerInput:
    """Inputs of the indexer: cells written, cells seen, and the rotation of its keys (None where there is none)."""

    k_idxs: Node
    mask: Node
    k_rot: Node | None


def indexer_input(g: GraphContext, *, rotated: bool) -> IndexerInput:
    """rotated: keys are always rotated; else never, as the architecture has it.

    The mask is F16, whatever attention uses.
    """
    width = rotation_width(g.hp.indexer_head_size)
    return IndexerInput(
        k_idxs=g.input("k_idxs_indexer", I64, g.n_tokens),
        mask=attention_mask(g, "mask_indexer", g.cells("indexer"), F16),
        k_rot=g.input("k_rot_indexer", F32, width, width) if rotated else None,
    )


def index_cells(
    g: GraphContext, inp: IndexerInput, block: Block, cur: Node, q_latent: Node, pos: Node, il: int
) -> Node:
    """Store this layer's indexer keys and find the cells each token attends to: [top k, tokens, 1, streams]."""
    hp = g.hp
    q = mul_mat(block.need("indexer.attn_q_b.weight"), q_latent)
    q = rope(reshape(q, hp.indexer_head_size, hp.indexer_n_head, g.n_tokens), pos)
    k = mul_mat(block.need("indexer.attn_k.weight"), cur)
    k = build_layer_norm(g, k, block("indexer.k_norm.weight"), block("indexer.k_norm.bias"), il)
    k = rope(reshape(k, hp.indexer_head_size, 1, g.n_tokens), pos)
    if inp.k_rot is not None:
        q, k = mul_mat(inp.k_rot, q), mul_mat(inp.k_rot, k)
    cells = g.cache("indexer", il)
    g.expand(store_rows(cells, k, inp.k_idxs))
    weights = mul_mat(block.need("indexer.proj.weight"), cur)
    row = cells.nb[1]
    keys = view(cells, (hp.indexer_head_size, 1, cells.ne[1], cells.ne[2]), (row, row, cells.nb[2]))
    score = score_cells(q, keys, weights, inp.mask)
    return cont(top_k(score, min(score.ne[0], hp.indexer_top_k)))


def score_cells(q: Node, keys: Node, weights: Node, mask: Node) -> Node:
    """How much each token wants each cell: [cells, tokens, 1, streams] (ggml_lightning_indexer).

    q: [head, heads, tokens]; keys: [head, 1, cells, streams]; weights: [heads, tokens].
    The operation is always used: cparams.fused_lid, src/llama-context.cpp:237-238.
    """
    q, weights = by_stream(q, keys.ne[3]), scale(weights_by_stream(weights, keys.ne[3]))
    return lightning_indexer(q, keys, weights, mask)


def by_stream(q: Node, n_stream: int) -> Node:
    """[head, heads, tokens] as [head, heads, tokens of a stream, streams]."""
    return view(q, (q.ne[0], q.ne[1], q.ne[2] // n_stream, n_stream), (q.nb[1], q.nb[2], q.nb[3] // n_stream))


def weights_by_stream(weights: Node, n_stream: int) -> Node:
    """[heads, tokens] as [heads, tokens of a stream, 1, streams]."""
    heads, n_tokens, _, _ = weights.ne
    return view(
        weights,
        (heads, n_tokens // n_stream, 1, n_stream),
        (weights.nb[1], weights.nb[2] // n_stream, weights.nb[3] // n_stream),
    )


def lightning_indexer(q: Node, keys: Node, weights: Node, mask: Node) -> Node:
    """The scores of all cells, everything apart by stream."""
    return custom((keys.ne[2], q.ne[2], 1, keys.ne[3]), (q, keys, weights, mask))


def build_attn_sparse(
    g: GraphContext,
    inp: AttentionInput,
    block: Block | None,
    q: Node,
    k: Node,
    v: Node,
    chosen: Node,
    il: int,
    *,
    v_mla: Node | None = None,
    sinks: Node | None = None,
) -> Node:
    """build_attn with llm_graph_input_attn_k_dsa: latent attention to the `chosen` cells."""
    g.expand(q)
    g.expand(v)
    g.expand(k)
    cells = g.cache(inp.kind, il)
    g.expand(store_rows(cells, k, inp.k_idxs))
    mask = mask_of_chosen(inp.mask, chosen)
    keys = read_k(g, cells, il)
    values = view(keys, (v.ne[0], *keys.ne[1:]), keys.nb[1:])
    cur = mha(g, q, keys, values, mask, sinks=sinks, v_mla=v_mla)
    return cur if block is None else output_projection(block, cur)


def mask_of_chosen(mask: Node, chosen: Node, zeros_type: TensorType = F32) -> Node:
    """`mask` with every cell closed that is not among the chosen ones."""
    n_kv, per_stream, _, n_stream = mask.ne
    closed = fill(mask)
    closed = view(closed, (1, n_kv, per_stream, n_stream), closed.nb[:3])
    n_chosen = chosen.ne[0]
    rows = view(chosen, (n_chosen, per_stream, n_stream, 1), (chosen.nb[1], chosen.nb[2], chosen.nb[3]))
    zeros = fill(leaf(zeros_type, (1, n_chosen, per_stream, n_stream)))
    opened = set_rows(closed, zeros, rows)
    return add(view(opened, mask.ne, mask.nb[1:]), mask)
