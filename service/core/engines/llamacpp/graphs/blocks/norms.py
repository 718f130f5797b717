"""Norms with their weights.

Source: build_norm, src/llama-graph.cpp:1626-1660 (llama.cpp in llama-cpp-python 0.3.36).
"""

from typing import Literal

from service.core.engines.llamacpp.compute.node import Node
from service.core.engines.llamacpp.compute.ops import add, mul, norm, rms_norm
from service.core.engines.llamacpp.graphs.context import Block, GraphContext

NormKind = Literal["rms", "layer"]


def build_rms_norm(g: GraphContext, cur: Node, weight: Node | None, il: int, bias: Node | None = None) -> Node:
    """LLM_NORM_RMS."""
    return _weighted(g, rms_norm(cur), weight, bias, il)


def build_layer_norm(g: GraphContext, cur: Node, weight: Node | None, bias: Node | None, il: int) -> Node:
    """LLM_NORM."""
    return _weighted(g, norm(cur), weight, bias, il)


def block_norm(g: GraphContext, kind: NormKind, block: Block, name: str, cur: Node, il: int) -> Node:
    """The norm `<name>.weight` of block `il`, with `<name>.bias` where the file has it."""
    cur = rms_norm(cur) if kind == "rms" else norm(cur)
    return _weighted(g, cur, block(name + ".weight"), block(name + ".bias"), il)


def output_norm(g: GraphContext, kind: NormKind, cur: Node, name: str = "output_norm") -> Node:
    """The norm behind the last block."""
    cur = rms_norm(cur) if kind == "rms" else norm(cur)
    return _weighted(g, cur, g.output_weight(name + ".weight"), g.output_weight(name + ".bias"), -1)


def _weighted(g: GraphContext, cur: Node, weight: Node | None, bias: Node | None, il: int) -> Node:
    if weight is not None or bias is not None:
        g.pin_norm(cur, il)
    if weight is not None:
        cur = mul(cur, weight)
    return cur if bias is None else add(cur, bias)
