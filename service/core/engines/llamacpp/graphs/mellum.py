"""Mellum: windowed blocks with norms of Q and K, and experts."""

from service.core.engines.llamacpp.compute.ops import add
from service.core.engines.llamacpp.graphs import graph
from service.core.engines.llamacpp.graphs.blocks.attend import cached_attention
from service.core.engines.llamacpp.graphs.blocks.dense import DenseModel, rotated_qkv
from service.core.engines.llamacpp.graphs.blocks.experts import Routing, build_moe_ffn, experts_scaled
from service.core.engines.llamacpp.graphs.blocks.inputs import token_embeddings
from service.core.engines.llamacpp.graphs.blocks.norms import build_rms_norm
from service.core.engines.llamacpp.graphs.blocks.output import rms_output
from service.core.engines.llamacpp.graphs.context import GraphContext


@graph("mellum")
def mellum(g: GraphContext) -> None:
    """src/models/mellum.cpp."""
    model, routing = DenseModel(), Routing(scaled=experts_scaled(g))
    cur, attend = token_embeddings(g), cached_attention(g)
    for il in g.layers:
        block = g.block(il)
        residual = cur
        cur = build_rms_norm(g, cur, block("attn_norm.weight"), il)
        cur = attend(block, *rotated_qkv(g, model, block, cur, il), il)
        cur, residual = g.select_outputs(il, cur, residual)
        ffn_inp = add(cur, residual)
        cur = build_rms_norm(g, ffn_inp, block("ffn_norm.weight"), il)
        cur = add(build_moe_ffn(g, block, cur, routing, il), ffn_inp)
    rms_output(g, cur)
