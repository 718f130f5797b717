"""gpt-oss: sliding windows, attention sinks, and experts with biases."""

from service.core.engines.llamacpp.compute.node import Node
from service.core.engines.llamacpp.compute.ops import rope
from service.core.engines.llamacpp.graphs import graph
from service.core.engines.llamacpp.graphs.blocks import (
    Routing,
    build_attn_windowed,
    experts_scaled,
    positions,
    qkv_of_sizes,
    rms_output,
    token_embeddings,
    windowed_input,
)
from service.core.engines.llamacpp.graphs.blocks.decoder import pre_norm_decoder, routed_or_dense, seed_drafts
from service.core.engines.llamacpp.graphs.context import Block, GraphContext


@graph("gpt-oss")
def gpt_oss(g: GraphContext) -> None:
    """src/models/openai-moe.cpp: heads are as large as their rotated part."""
    cur = token_embeddings(g)
    pos, inp, hp = positions(g), windowed_input(g), g.hp
    head = hp.n_rot_full

    def attention(block: Block, cur: Node, il: int) -> Node:
        q, k, v = qkv_of_sizes(g, block, cur, head, hp.n_head[il], head, hp.n_head_kv[il], head)
        q, k = rope(q, pos), rope(k, pos)
        return build_attn_windowed(g, inp, block, q, k, v, il, sinks=block("attn_sinks.weight"))

    routing = Routing(gating="softmax_weight", activation="swiglu_oai", normalised=False, scaled=experts_scaled(g))
    cur = pre_norm_decoder(
        g, cur, attention, routed_or_dense(g, routing), ffn_norm="post_attention_norm", all_rows=True
    )
    rms_output(g, seed_drafts(g, cur))
