"""Routed experts beside a shared one behind a sigmoid gate (Qwen 3-Next and later)."""

from service.core.engines.llamacpp.compute.node import Node
from service.core.engines.llamacpp.compute.ops import add, mul, mul_mat, sigmoid
from service.core.engines.llamacpp.graphs.blocks.experts import Routing, build_moe_ffn
from service.core.engines.llamacpp.graphs.blocks.feed_forward import build_ffn
from service.core.engines.llamacpp.graphs.context import Block, GraphContext


def gated_experts_ffn(g: GraphContext, block: Block, cur: Node, routing: Routing, il: int) -> Node:
    """The experts, or a dense network where the block has no router.

    Source: build_layer_ffn, src/models/qwen3next.cpp, qwen35.cpp and qwen35moe.cpp (llama.cpp in llama-cpp-python
    0.3.36).
    """
    if not block.has("ffn_gate_inp.weight"):
        return build_ffn(block, cur)
    routed = build_moe_ffn(g, block, cur, routing, il)
    if not block.has("ffn_up_shexp.weight"):
        return routed
    shared = build_ffn(block, cur, suffix="_shexp")
    gate = mul_mat(block.need("ffn_gate_inp_shexp.weight"), cur)
    return add(routed, mul(shared, sigmoid(gate)))
