"""Feed-forward networks of models whose first blocks are dense and whose others have routed and shared experts."""

from dataclasses import replace
from typing import Final

from service.core.architectures.hparams import Hparams
from service.core.engines.llamacpp.compute.node import Node
from service.core.engines.llamacpp.compute.ops import add
from service.core.engines.llamacpp.graphs.blocks.experts import Gating, Routing, build_moe_ffn, experts_scaled
from service.core.engines.llamacpp.graphs.blocks.feed_forward import build_ffn
from service.core.engines.llamacpp.graphs.context import Block, GraphContext

_LEAST_LIMIT: Final = 1e-6

_GATINGS: dict[int, Gating] = {1: "softmax", 2: "sigmoid", 3: "softmax_weight", 4: "sqrt_softplus"}


def file_routing(g: GraphContext, default: Gating = "softmax") -> Routing:
    """Routing as the metadata states it.

    Source: llama_expert_gating_func_type, src/llama-hparams.h:20-26 (llama.cpp in llama-cpp-python 0.3.36).
    """
    return Routing(
        gating=_GATINGS.get(int(g.number("expert_gating_func")), default),
        normalised=g.number("expert_weights_norm") != 0.0,
        scaled=experts_scaled(g),
    )


def limited_units(hp: Hparams, il: int) -> tuple[bool, bool]:
    """Whether block `il` limits the gated units of its routed experts, and of its shared expert or dense network.

    Source: src/llama-graph.cpp:1844-1850, 2238-2244 (llama.cpp in llama-cpp-python 0.3.36).
    """
    routed, shared = hp.swiglu_clamp_exp, hp.swiglu_clamp_shexp
    return bool(routed) and routed[il] > _LEAST_LIMIT, bool(shared) and shared[il] > _LEAST_LIMIT


def dense_or_routed(
    g: GraphContext,
    block: Block,
    cur: Node,
    routing: Routing,
    il: int,
    *,
    limited: tuple[bool, bool] = (False, False),
) -> Node:
    """A dense network in the leading blocks; routed experts plus the shared one in the others.

    limited: as limited_units has it, where the architecture limits units; with one operation if routing.fused_clamp.
    """
    limit_routed, limit_shared = limited
    fused = routing.fused_clamp
    if il < g.hp.n_layer_dense_lead:
        return build_ffn(block, cur, clamped=limit_shared, fused_clamp=fused)
    if limit_routed:
        routing = replace(routing, clamped=True)
    routed = build_moe_ffn(g, block, cur, routing, il)
    return add(routed, build_ffn(block, cur, suffix="_shexp", clamped=limit_shared, fused_clamp=fused))
