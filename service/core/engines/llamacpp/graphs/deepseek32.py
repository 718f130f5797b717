"""DeepSeek 3.2 and GLM 5: latent attention to the cells that an indexer picks."""

from service.core.engines.llamacpp.compute.node import Node
from service.core.engines.llamacpp.compute.ops import add, mul_mat, rope
from service.core.engines.llamacpp.graphs import graph
from service.core.engines.llamacpp.graphs.blocks import (
    AttentionInput,
    attention_input,
    build_rms_norm,
    positions,
    rms_output,
    token_embeddings,
)
from service.core.engines.llamacpp.graphs.blocks.latent import absorbed_qkv, compressed_kv, latent_heads, query_latent
from service.core.engines.llamacpp.graphs.blocks.routed_ffn import dense_or_routed, file_routing
from service.core.engines.llamacpp.graphs.blocks.sparse_attention import (
    IndexerInput,
    build_attn_sparse,
    index_cells,
    indexer_input,
)
from service.core.engines.llamacpp.graphs.context import GraphContext


@graph("deepseek32", "glm-dsa", replays=True)
def deepseek32(g: GraphContext) -> None:
    """src/models/deepseek32.cpp and glm-dsa.cpp, some of whose layers use the cells picked by an earlier one."""
    cur = token_embeddings(g)
    pos, inp, indexer = positions(g), attention_input(g), indexer_input(g, rotated=True)
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


def _attention(g: GraphContext, inp: AttentionInput, indexer: IndexerInput, pos: Node, cur: Node, il: int) -> Node:
    block, heads = g.block(il), latent_heads(g, il)
    q_latent = query_latent(g, block, cur, il)
    if g.hp.arch.name == "deepseek32" or g.hp.is_indexer_full[il]:
        g.memo["chosen_cells"] = index_cells(g, indexer, block, cur, q_latent, pos, il)
    q = mul_mat(block.need("attn_q_b.weight"), q_latent)
    latent, k_pe = compressed_kv(block, cur, heads)
    latent = build_rms_norm(g, latent, block("attn_kv_a_norm.weight"), il)
    q, k, v = absorbed_qkv(block, q, latent, rope(k_pe, pos), pos, heads)
    chosen = g.memo["chosen_cells"]
    return build_attn_sparse(g, inp, block, q, k, v, chosen, il, v_mla=block("attn_v_b.weight"))
