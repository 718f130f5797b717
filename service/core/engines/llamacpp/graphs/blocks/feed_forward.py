"""Dense feed-forward networks.

Source: build_ffn, src/llama-graph.cpp:1773-1960 (llama.cpp in llama-cpp-python 0.3.36).
"""

from typing import Literal

from service.core.engines.llamacpp.compute.node import Node
from service.core.engines.llamacpp.compute.ops import add, clamp, div, glu, glu_split, mul, mul_mat, silu, sqr, unary
from service.core.engines.llamacpp.graphs.context import Block

Activation = Literal["silu", "gelu", "relu", "relu_sqr", "swiglu", "geglu", "reglu", "swiglu_oai"]
Gate = Literal["parallel", "sequential"]

_OVER_HALVES = frozenset(("swiglu", "geglu", "reglu"))
_FUSED_WITH_GATE = frozenset(("silu", "gelu", "relu", "swiglu_oai"))


def build_ffn(
    block: Block,
    cur: Node,
    activation: Activation = "silu",
    gate: Gate = "parallel",
    *,
    suffix: str = "",
    act_scales: Node | None = None,
    clamped: bool = False,
    fused_clamp: bool = False,
) -> Node:
    """Up, gate and down projections `ffn_*<suffix>` of a block, each with bias and scale where the file has them.

    activation over halves ("swiglu", "geglu", "reglu") splits the up projection; clamped: the model limits silu
    (hparams.swiglu_clamp_shexp), fused_clamp: with one operation for it.
    """
    up_name, gate_name, down_name = "ffn_up" + suffix, "ffn_gate" + suffix, "ffn_down" + suffix
    up = _scaled(block, up_name, cur)
    x = cur if up is None else up
    gated = block.has(gate_name + ".weight")
    y = x
    if gated:
        y = _scaled(block, gate_name, x if gate == "sequential" else cur) or x
    parallel = gated and gate == "parallel"
    if activation in _OVER_HALVES:
        y = glu(y)
    elif parallel and activation in _FUSED_WITH_GATE:
        y = _limited(y, x, fused_clamp) if clamped else glu_split(y, x)
        parallel = False
    else:
        y = unary(y)
        if activation == "relu_sqr":
            y = sqr(y)
        if act_scales is not None:
            y = div(y, act_scales)
    if parallel:
        y = mul(y, x)
    down = _scaled(block, down_name, y)
    return y if down is None else down


def _limited(gate: Node, up: Node, fused: bool) -> Node:
    if fused:
        return glu_split(gate, up)
    up = clamp(up)
    return mul(clamp(silu(gate)), up)


def _scaled(block: Block, name: str, cur: Node) -> Node | None:
    weight = block(name + ".weight")
    if weight is None:
        return None
    cur = mul_mat(weight, cur)
    bias = block(name + ".bias")
    if bias is not None:
        cur = add(cur, bias)
    factor = block(name + ".scale")
    return cur if factor is None else mul(cur, factor)
