"""dots.note 3: gated latent attention, in a window or to the cells that an indexer picks."""

from service.core.engines.llamacpp.compute.node import Node
from service.core.engines.llamacpp.compute.ops import add, mul, mul_mat, reshape, rope, sigmoid
from service.core.engines.llamacpp.graphs import graph
from service.core.engines.llamacpp.graphs.blocks import (
    WindowedInput,
    build_attn_latent,
    build_rms_norm,
    linear,
    positions,
    rms_output,
    token_embeddings,
    windowed_input,
)
from service.core.engines.llamacpp.graphs.blocks.latent import absorbed_qkv, compressed_kv, latent_heads, query_latent
from service.core.engines.llamacpp.graphs.blocks.per_layer import every_layer
from service.core.engines.llamacpp.graphs.blocks.routed_ffn import dense_or_routed, file_routing
from service.core.engines.llamacpp.graphs.blocks.sparse_attention import (
    IndexerInput,
    build_attn_sparse,
    index_cells,
    indexer_input,
)
from service.core.engines.llamacpp.graphs.context import GraphContext


@graph("dots3note", layer_key=every_layer)
def dots3note(g: GraphContext) -> None:
    """src/models/dots3note.cpp."""
    cur = token_embeddings(g)
    pos, inp, indexer = positions(g), windowed_input(g), indexer_input(g, rotated=True)
    routing = file_routing(g)
    for il in g.layers:
        block = g.block(il)
        residual = cur
        cur = build_rms_norm(g, cur, block("attn_norm.weight"), il)
        cur = _attention(g, inp, indexer, pos, cur, il)
        cur, residual = g.select_outputs(il, cur, residual)
        ffn_inp = add(cur, residual)
        cur = build_rms_norm(g, ffn_inp, block("ffn_norm.weight"), il)
        cur = add(dense_or_routed(g, block, cur, routing, il), ffn_inp)
    rms_output(g, cur)


def _attention(g: GraphContext, inp: WindowedInput, indexer: IndexerInput, pos: Node, cur: Node, il: int) -> Node:
    """Both kinds of layers attend without projection, because a gate by head comes in between."""
    block, heads, windowed = g.block(il), latent_heads(g, il), g.hp.is_swa[il]
    q_latent = query_latent(g, block, cur, il)
    chosen = None if windowed else index_cells(g, indexer, block, cur, q_latent, pos, il)
    q = mul_mat(block.need("attn_q_b.weight"), q_latent)
    latent, k_pe = compressed_kv(block, cur, heads)
    k_pe = rope(build_rms_norm(g, k_pe, block("attn_k_norm.weight"), il), pos)
    latent = build_rms_norm(g, latent, block("attn_kv_a_norm.weight"), il)
    q, k, v = absorbed_qkv(block, q, latent, k_pe, pos, heads)
    v_mla = block("attn_v_b.weight")
    if chosen is None:
        attended = build_attn_latent(g, inp.swa, None, q, k, v, il, v_mla=v_mla)
    else:
        attended = build_attn_sparse(g, inp.base, None, q, k, v, chosen, il, v_mla=v_mla)
    gate = sigmoid(linear(block.need("attn_gate.weight"), cur, block("attn_gate.scale")))
    gated = mul(reshape(attended, heads.value, heads.n_head, g.n_tokens), reshape(gate, 1, heads.n_head, g.n_tokens))
    flat = reshape(gated, heads.value * heads.n_head, g.n_tokens)
    return linear(block.need("attn_output.weight"), flat, block("attn_output.scale"))
