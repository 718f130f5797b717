"""Talkie: norms without weights and a skip connection from the embeddings to every block."""

from service.core.engines.llamacpp.compute.ops import add, mul, rms_norm, rope, scale
from service.core.engines.llamacpp.graphs import graph
from service.core.engines.llamacpp.graphs.blocks.attend import cached_attention
from service.core.engines.llamacpp.graphs.blocks.attention import build_qkv
from service.core.engines.llamacpp.graphs.blocks.feed_forward import build_ffn
from service.core.engines.llamacpp.graphs.blocks.inputs import positions, token_embeddings
from service.core.engines.llamacpp.graphs.blocks.norms import build_rms_norm
from service.core.engines.llamacpp.graphs.blocks.output import logits_of
from service.core.engines.llamacpp.graphs.context import GraphContext


@graph("talkie")
def talkie(g: GraphContext) -> None:
    """src/models/talkie.cpp."""
    skip = cur = rms_norm(token_embeddings(g))
    attend, pos = cached_attention(g), positions(g)
    for il in g.layers:
        block = g.block(il)
        residual, skipped = cur, skip
        q, k, v = build_qkv(g, block, rms_norm(cur), il)
        q = build_rms_norm(g, rope(q, pos), block("attn_q_norm.weight"), il)
        cur = attend(block, q, rms_norm(rope(k, pos)), v, il)
        cur, residual, skipped = g.select_outputs(il, cur, residual, skipped)
        ffn_inp = add(cur, residual)
        cur = add(build_ffn(block, rms_norm(ffn_inp)), ffn_inp)
        cur = add(cur, mul(skipped, block.need("layer_output_scale.weight")))
    cur = rms_norm(cur)
    g.finish(cur, scale(logits_of(g, cur)))
