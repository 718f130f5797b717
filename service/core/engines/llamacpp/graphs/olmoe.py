"""OLMoE, MiniMax M2, LLaDA MoE and RND1: every block routed, no shared experts."""

from dataclasses import replace

from service.core.engines.llamacpp.compute.node import Node
from service.core.engines.llamacpp.compute.ops import rope
from service.core.engines.llamacpp.graphs import graph
from service.core.engines.llamacpp.graphs.blocks import (
    Routing,
    experts_scaled,
    positions,
    rms_output,
    token_embeddings,
)
from service.core.engines.llamacpp.graphs.blocks.attend import cached_attention, uncached_attention
from service.core.engines.llamacpp.graphs.blocks.decoder import pre_norm_decoder, rotated_attention, routed_or_dense
from service.core.engines.llamacpp.graphs.blocks.routed_ffn import file_routing
from service.core.engines.llamacpp.graphs.blocks.wide_qkv import flat_normed_qkv
from service.core.engines.llamacpp.graphs.context import Block, GraphContext


def _widely_normed(g: GraphContext, routing: Routing) -> None:
    """Q and K are normed over all heads at once."""
    cur = token_embeddings(g)
    pos, attend = positions(g), cached_attention(g)

    def attention(block: Block, cur: Node, il: int) -> Node:
        q, k, v = flat_normed_qkv(g, block, cur, il)
        return attend(block, rope(q, pos), rope(k, pos), v, il)

    rms_output(g, pre_norm_decoder(g, cur, attention, routed_or_dense(g, routing)))


@graph("olmoe")
def olmoe(g: GraphContext) -> None:
    """src/models/olmoe.cpp."""
    _widely_normed(g, Routing(normalised=False, scaled=experts_scaled(g)))


@graph("minimax-m2")
def minimax_m2(g: GraphContext) -> None:
    """src/models/minimax-m2.cpp."""
    _widely_normed(g, replace(file_routing(g), normalised=True))


def _diffusion(g: GraphContext, *, normalised: bool) -> None:
    """Tokens of the batch attend to each other; nothing is cached."""
    cur = token_embeddings(g)
    attention = rotated_attention(g, uncached_attention(g))
    routing = Routing(normalised=normalised, scaled=experts_scaled(g))
    rms_output(g, pre_norm_decoder(g, cur, attention, routed_or_dense(g, routing)))


@graph("llada-moe")
def llada_moe(g: GraphContext) -> None:
    """src/models/llada-moe.cpp."""
    _diffusion(g, normalised=False)


@graph("rnd1")
def rnd1(g: GraphContext) -> None:
    """src/models/rnd1.cpp."""
    _diffusion(g, normalised=True)
