"""GroveMoE: groups of experts share a smaller one."""

from service.core.engines.llamacpp.compute.node import F32, I32, Node
from service.core.engines.llamacpp.compute.ops import add, argsort_top_k, cast, mul_mat, scale, sigmoid
from service.core.engines.llamacpp.graphs import graph
from service.core.engines.llamacpp.graphs.blocks import (
    Routing,
    build_moe_ffn,
    experts_scaled,
    rms_output,
    token_embeddings,
)
from service.core.engines.llamacpp.graphs.blocks.attend import cached_attention
from service.core.engines.llamacpp.graphs.blocks.decoder import pre_norm_decoder, rotated_attention
from service.core.engines.llamacpp.graphs.context import Block, GraphContext


@graph("grovemoe")
def grovemoe(g: GraphContext) -> None:
    """src/models/grovemoe.cpp: the shared (adjugate) experts take what the routed ones give, by the same logits.

    Source: build_moe_ffn, src/llama-graph.cpp:2094-2135, for experts chosen by sigmoid and for those of groups.
    """
    cur = token_embeddings(g)
    attention = rotated_attention(g, cached_attention(g))
    routing = Routing(scaled=experts_scaled(g))
    n_chunks = g.hp.n_expert // int(g.number("experts_per_group", 1.0))

    def feed_forward(block: Block, cur: Node, il: int) -> Node:
        block = block.unscaled()
        logits = mul_mat(block.need("ffn_gate_inp.weight"), cur)
        n_used = g.hp.n_expert_used[il]
        chosen = argsort_top_k(sigmoid(logits), n_used)
        routed = build_moe_ffn(g, block, cur, routing, il, logits=logits, selected=chosen)
        chosen = argsort_top_k(sigmoid(logits), min(n_used, n_chunks))
        groups = cast(scale(cast(chosen, F32)), I32)
        shared = build_moe_ffn(g, block, routed, routing, il, suffix="_chexps", logits=logits, selected=groups)
        return add(routed, scale(shared))

    rms_output(g, pre_norm_decoder(g, cur, attention, feed_forward))
