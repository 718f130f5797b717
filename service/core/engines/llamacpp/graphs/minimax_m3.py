"""MiniMax M3: grouped-query attention in which an indexer picks blocks of positions for each group of heads."""

from service.core.architectures.hparams import Hparams
from service.core.engines.llamacpp.compute.node import Node
from service.core.engines.llamacpp.compute.ops import add, rope
from service.core.engines.llamacpp.graphs import graph
from service.core.engines.llamacpp.graphs.blocks import (
    AttentionInput,
    Routing,
    attention_input,
    build_attn,
    build_ffn,
    build_moe_ffn,
    build_qkv,
    build_rms_norm,
    hadamard,
    output_projection,
    positions,
    read_k,
    read_v,
    rms_output,
    store_rows,
    token_embeddings,
)
from service.core.engines.llamacpp.graphs.blocks.block_sparse import (
    BlockInput,
    block_input,
    gather_blocks,
    index_keys,
    open_blocks,
)
from service.core.engines.llamacpp.graphs.blocks.routed_ffn import file_routing
from service.core.engines.llamacpp.graphs.context import Block, GraphContext


def _is_dense(hp: Hparams, il: int) -> bool:
    """Whether block `il` is one of the leading ones, without an indexer and experts."""
    return il < hp.n_layer_dense_lead


@graph("minimax-m3", layer_key=_is_dense, replays=True)
def minimax_m3(g: GraphContext) -> None:
    """src/models/minimax-m3.cpp.

    Attention is sparse behind the leading dense blocks, with flash attention and a stream per sequence.
    """
    hp = g.hp
    cur = token_embeddings(g)
    pos, inp = positions(g), attention_input(g)
    separate = g.ctx.n_seq_max == 1 or not g.ctx.kv_unified
    sparse = block_input(g, inp.mask) if g.flash_attn and separate else None
    routing = file_routing(g)
    for il in g.layers:
        block = g.block(il)
        residual = cur
        cur = build_rms_norm(g, cur, block("attn_norm.weight"), il)
        q, k, v = build_qkv(g, block, cur, il)
        q = rope(build_rms_norm(g, q, block("attn_q_norm.weight"), il), pos)
        k = rope(build_rms_norm(g, k, block("attn_k_norm.weight"), il), pos)
        if sparse is None or _is_dense(hp, il):
            cur = build_attn(g, inp, block, q, k, v, il)
        else:
            index_q, index_k = index_keys(g, sparse, block, cur, pos, il)
            cur = _sparse_attention(g, inp, sparse, block, (q, k, v), (index_q, index_k), il)
        cur, residual = g.select_outputs(il, cur, residual)
        ffn_inp = add(cur, residual)
        cur = build_rms_norm(g, ffn_inp, block("ffn_norm.weight"), il)
        cur = add(_feed_forward(g, block, cur, routing, il), ffn_inp)
    rms_output(g, cur)


def _sparse_attention(
    g: GraphContext,
    inp: AttentionInput,
    sparse: BlockInput,
    block: Block,
    qkv: tuple[Node, Node, Node],
    index: tuple[Node, Node],
    il: int,
) -> Node:
    """K is stored before V here."""
    q, k, v = qkv
    if inp.k_rot is not None:
        q, k = hadamard(q, inp.k_rot), hadamard(k, inp.k_rot)
    if inp.v_rot is not None:
        v = hadamard(v, inp.v_rot)
    for node in (q, k, v):
        g.expand(node)
    cells_k, cells_v = g.cache(inp.kind, il), g.cache(inp.kind, il, second=True)
    g.expand(store_rows(cells_k, k, inp.k_idxs))
    g.expand(store_rows(cells_v, v, inp.v_idxs))
    attend = gather_blocks if sparse.cell_values is not None else open_blocks
    cur = attend(sparse, *index, q, read_k(g, cells_k, il), read_v(g, cells_v, il))
    if inp.v_rot is not None:
        cur = hadamard(cur, inp.v_rot)
    return output_projection(block, cur)


def _feed_forward(g: GraphContext, block: Block, cur: Node, routing: Routing, il: int) -> Node:
    if _is_dense(g.hp, il):
        return build_ffn(block, cur, "swiglu_oai")
    routed = build_moe_ffn(g, block, cur, routing, il)
    return add(routed, build_ffn(block, cur, "swiglu_oai", suffix="_shexp"))
