"""Norms with their weights.

Source: build_norm, src/llama-graph.cpp:1626-1660 (llama.cpp in llama-cpp-python 0.3.36).
"""

from service.core.engines.llamacpp.compute.node import Node
from service.core.engines.llamacpp.compute.ops import add, mul, norm, rms_norm
from service.core.engines.llamacpp.graphs.context import GraphContext


def build_rms_norm(g: GraphContext, cur: Node, weight: Node | None, il: int, bias: Node | None = None) -> Node:
    """LLM_NORM_RMS."""
    return _weighted(g, rms_norm(cur), weight, bias, il)


def build_layer_norm(g: GraphContext, cur: Node, weight: Node | None, bias: Node | None, il: int) -> Node:
    """LLM_NORM."""
    return _weighted(g, norm(cur), weight, bias, il)


def _weighted(g: GraphContext, cur: Node, weight: Node | None, bias: Node | None, il: int) -> Node:
    if weight is not None or bias is not None:
        g.pin_norm(cur, il)
    if weight is not None:
        cur = mul(cur, weight)
    return cur if bias is None else add(cur, bias)
