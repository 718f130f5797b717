"""Llama 4: chunked windows, blocks without rope, and a shared expert beside the routed ones."""

from service.core.architectures.hparams import Hparams
from service.core.engines.llamacpp.compute.node import Node
from service.core.engines.llamacpp.compute.ops import mul, rms_norm, rope
from service.core.engines.llamacpp.graphs import graph
from service.core.engines.llamacpp.graphs.blocks import (
    Routing,
    attention_scale,
    build_qkv,
    experts_scaled,
    positions,
    rms_output,
    rope_factors,
    token_embeddings,
)
from service.core.engines.llamacpp.graphs.blocks.attend import cached_attention
from service.core.engines.llamacpp.graphs.blocks.decoder import pre_norm_decoder, routed_or_dense
from service.core.engines.llamacpp.graphs.context import Block, GraphContext

_UNNORMED_EXPERTS = 128
"""Experts of the one size whose Q and K are not normed (llama4.cpp:33-41)."""


def _rotates(hp: Hparams, il: int) -> bool:
    """Whether block `il` has rope: not every fourth, or without a window not the last one."""
    return (il + 1) % (hp.n_layer if hp.swa_type == "none" else 4) != 0


@graph("llama4", layer_key=_rotates)
def llama4(g: GraphContext) -> None:
    """src/models/llama4.cpp: blocks without rope scale Q by position instead."""
    cur = token_embeddings(g)
    pos, temperature, attend = positions(g), attention_scale(g), cached_attention(g)
    normed = g.hp.n_expert != _UNNORMED_EXPERTS

    def attention(block: Block, cur: Node, il: int) -> Node:
        q, k, v = build_qkv(g, block, cur, il)
        if not _rotates(g.hp, il):
            return attend(block, mul(q, temperature), k, v, il)
        factors = rope_factors(g, il)
        q, k = rope(q, pos, factors), rope(k, pos, factors)
        if normed:
            q, k = rms_norm(q), rms_norm(k)
        return attend(block, q, k, v, il)

    routing = Routing(
        gating="sigmoid", normalised=False, scaled=experts_scaled(g), weigh_first=True, raw_selection=True
    )
    rms_output(g, pre_norm_decoder(g, cur, attention, routed_or_dense(g, routing)))
