"""DeepSeek 2 and 3 and what is built like them: multi-head latent attention and a mixture of experts."""

from service.core.engines.llamacpp.compute.node import Node
from service.core.engines.llamacpp.compute.ops import add, mul, rope
from service.core.engines.llamacpp.graphs import draft_layers, graph
from service.core.engines.llamacpp.graphs.blocks import (
    AttentionInput,
    attention_input,
    attention_scale,
    build_attn,
    build_attn_latent,
    build_qkv,
    build_rms_norm,
    positions,
    rms_output,
    token_embeddings,
)
from service.core.engines.llamacpp.graphs.blocks.draft_layers import draft_block, draft_head
from service.core.engines.llamacpp.graphs.blocks.latent import (
    absorbed_qkv,
    compressed_kv,
    expanded_qkv,
    latent_heads,
    project_query,
)
from service.core.engines.llamacpp.graphs.blocks.routed_ffn import dense_or_routed, file_routing
from service.core.engines.llamacpp.graphs.context import Block, GraphContext


@graph("deepseek2", "mistral4", "deepseek2-ocr")
def deepseek2(g: GraphContext) -> None:
    """src/models/deepseek2.cpp, which mistral4.cpp and deepseek2ocr.cpp (ordinary attention) use as well."""
    cur = token_embeddings(g)
    pos, inp, routing = positions(g), attention_input(g), file_routing(g)
    attention = _plain_attention if g.hp.arch.name == "deepseek2-ocr" else _latent_attention
    for il in g.layers:
        block = g.block(il)
        residual = cur
        cur = build_rms_norm(g, cur, block("attn_norm.weight"), il)
        cur = attention(g, inp, pos, cur, il)
        cur, residual = g.select_outputs(il, cur, residual)
        ffn_inp = add(cur, residual)
        cur = build_rms_norm(g, ffn_inp, block("ffn_norm.weight"), il)
        cur = add(dense_or_routed(g, block, cur, routing, il), ffn_inp)
    rms_output(g, cur)


def _plain_attention(g: GraphContext, inp: AttentionInput, pos: Node, cur: Node, il: int) -> Node:
    block = g.block(il)
    q, k, v = build_qkv(g, block, cur, il)
    return build_attn(g, inp, block, rope(q, pos), rope(k, pos), v, il)


def _latent_attention(g: GraphContext, inp: AttentionInput, pos: Node, cur: Node, il: int) -> Node:
    """Attention over cached latents; over cached heads in files from before there were latent caches."""
    block, heads = g.block(il), latent_heads(g, il)
    q = project_query(g, block, cur, il)
    latent, k_pe = compressed_kv(block, cur, heads)
    latent = build_rms_norm(g, latent, block("attn_kv_a_norm.weight"), il)
    if g.hp.is_mla:
        q, k, v = absorbed_qkv(block, q, latent, rope(k_pe, pos), pos, heads)
    else:
        q, k, v = expanded_qkv(block, q, latent, k_pe, pos, heads)
    if g.number("attention.temperature_scale"):
        q = mul(q, attention_scale(g))
    if g.hp.is_mla:
        return build_attn_latent(g, inp, block, q, k, v, il, v_mla=block("attn_v_b.weight"))
    return build_attn(g, inp, block, q, k, v, il)


@draft_layers("deepseek2")
def deepseek2_draft(g: GraphContext) -> None:
    """graph_mtp of src/models/deepseek2.cpp."""
    _latent_draft(g, scales=False)


@draft_layers("deepseek32", "glm-dsa")
def deepseek32_draft(g: GraphContext) -> None:
    """graph_mtp of src/models/deepseek32.cpp and glm-dsa.cpp: draft layers attend to all cells, without an indexer."""
    _latent_draft(g, scales=True)


def _latent_draft(g: GraphContext, *, scales: bool) -> None:
    pos, inp, routing = positions(g), attention_input(g), file_routing(g)

    def attention(_block: Block, cur: Node, il: int) -> Node:
        return _latent_attention(g, inp, pos, cur, il)

    def feed_forward(block: Block, cur: Node, il: int) -> Node:
        return dense_or_routed(g, block if scales else block.unscaled(), cur, routing, il)

    draft_head(g, draft_block(g, attention, feed_forward))
