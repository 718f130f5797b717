"""AFMoE and Laguna: attention whose output is gated by a projection of its input."""

from collections.abc import Callable

from service.core.architectures.hparams import Hparams
from service.core.engines.llamacpp.compute.node import Node
from service.core.engines.llamacpp.compute.ops import add, mul, reshape, rope, scale, sigmoid, softplus
from service.core.engines.llamacpp.graphs import graph
from service.core.engines.llamacpp.graphs.blocks import (
    build_qkv,
    build_rms_norm,
    linear,
    positions,
    rms_output,
    token_embeddings,
)
from service.core.engines.llamacpp.graphs.blocks.attend import cached_attention
from service.core.engines.llamacpp.graphs.blocks.decoder import Layer, normed_heads, pre_norm_decoder, routed_or_dense
from service.core.engines.llamacpp.graphs.blocks.routed_ffn import file_routing
from service.core.engines.llamacpp.graphs.context import Block, GraphContext

_FULL_EVERY = 4


def _gated_attention(g: GraphContext, gate: Callable[[Node], Node], rotates: Callable[[int], bool]) -> Layer:
    """One gate per element of the output, or one per head."""
    pos, attend, hp = positions(g), cached_attention(g), g.hp

    def attention(block: Block, cur: Node, il: int) -> Node:
        q, k, v = build_qkv(g, block, cur, il)
        q, k = normed_heads(g, block, q, k, il)
        if rotates(il):
            q, k = rope(q, pos), rope(k, pos)
        out = attend(None, q, k, v, il)
        by = gate(linear(block.need("attn_gate.weight"), cur))
        head, heads = hp.n_embd_head_v(il), hp.n_head[il]
        if by.ne[0] == heads:
            out = mul(reshape(out, head, heads, g.n_tokens), reshape(by, 1, heads, g.n_tokens))
            out = reshape(out, head * heads, g.n_tokens)
        else:
            out = mul(out, by)
        return linear(block.need("attn_output.weight"), out, block("attn_output.scale"))

    return attention


def _rotates(_hp: Hparams, il: int) -> bool:
    return (il + 1) % _FULL_EVERY != 0


@graph("afmoe", layer_key=_rotates)
def afmoe(g: GraphContext) -> None:
    """src/models/afmoe.cpp: norms behind attention and network too; every fourth block has no rope."""
    cur = scale(token_embeddings(g))
    attention = _gated_attention(g, sigmoid, lambda il: _rotates(g.hp, il))
    feed_forward = routed_or_dense(g, file_routing(g, "sigmoid"))
    for il in g.layers:
        block = g.block(il)
        residual = cur
        cur = attention(block, build_rms_norm(g, cur, block("attn_norm.weight"), il), il)
        cur = build_rms_norm(g, cur, block("post_attention_norm.weight"), il)
        cur, residual = g.select_outputs(il, cur, residual)
        ffn_inp = add(cur, residual)
        cur = feed_forward(block, build_rms_norm(g, ffn_inp, block("ffn_norm.weight"), il), il)
        cur = add(build_rms_norm(g, cur, block("post_ffw_norm.weight"), il), ffn_inp)
    rms_output(g, cur)


@graph("laguna")
def laguna(g: GraphContext) -> None:
    """src/models/laguna.cpp."""
    cur = token_embeddings(g)
    attention = _gated_attention(g, softplus, lambda _il: True)
    rms_output(g, pre_norm_decoder(g, cur, attention, routed_or_dense(g, file_routing(g, "sigmoid"))))
