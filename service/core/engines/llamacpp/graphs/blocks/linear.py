"""Matrix products with optional biases and scales.

Source: build_lora_mm and build_lora_mm_id, src/llama-graph.cpp:1549-1624 (llama.cpp in llama-cpp-python 0.3.36).
"""

from service.core.engines.llamacpp.compute.node import Node
from service.core.engines.llamacpp.compute.ops import add, get_rows, mul, mul_mat, mul_mat_id, repeat_4d, reshape
from service.core.engines.llamacpp.graphs.context import Block


def linear(weight: Node, cur: Node, scale: Node | None = None) -> Node:
    """One matrix product, scaled where the weight has a scale (NVFP4)."""
    cur = mul_mat(weight, cur)
    return cur if scale is None else mul(cur, scale)


def project(block: Block, name: str, cur: Node) -> Node:
    """`<name>.weight` times `cur`, with `<name>.scale` and `<name>.bias` where the block has them."""
    cur = linear(block.need(name + ".weight"), cur, block(name + ".scale"))
    bias = block(name + ".bias")
    return cur if bias is None else add(cur, bias)


def expert_linear(weight: Node, cur: Node, ids: Node, scale: Node | None = None) -> Node:
    """One matrix product per token and selected expert."""
    result = mul_mat_id(weight, cur, ids)
    if scale is None:
        return result
    n_expert = scale.ne[0]
    s = repeat_4d(reshape(scale, 1, n_expert, 1), 1, n_expert, cur.ne[2], 1)
    return mul(result, get_rows(s, ids))
