"""BitNet: a norm between attention or activation and the projection behind it."""

from service.core.engines.llamacpp.compute.ops import add, glu_split, mul_mat
from service.core.engines.llamacpp.graphs import graph
from service.core.engines.llamacpp.graphs.blocks.attend import cached_attention
from service.core.engines.llamacpp.graphs.blocks.attention import output_projection
from service.core.engines.llamacpp.graphs.blocks.dense import DenseModel, rotated_qkv
from service.core.engines.llamacpp.graphs.blocks.inputs import token_embeddings
from service.core.engines.llamacpp.graphs.blocks.linear import linear
from service.core.engines.llamacpp.graphs.blocks.norms import build_rms_norm, output_norm
from service.core.engines.llamacpp.graphs.context import GraphContext


@graph("bitnet")
def bitnet(g: GraphContext) -> None:
    """src/models/bitnet.cpp: the head is the token embedding where it lies."""
    model = DenseModel()
    cur, attend = token_embeddings(g), cached_attention(g)
    for il in g.layers:
        block = g.block(il)
        residual = cur
        cur = build_rms_norm(g, cur, block("attn_norm.weight"), il)
        cur = attend(None, *rotated_qkv(g, model, block, cur, il), il)
        cur = output_projection(block, build_rms_norm(g, cur, block("attn_sub_norm.weight"), il))
        cur, residual = g.select_outputs(il, cur, residual)
        ffn_inp = add(cur, residual)
        cur = build_rms_norm(g, ffn_inp, block("ffn_norm.weight"), il)
        up = linear(block.need("ffn_up.weight"), cur, block("ffn_up.scale"))
        cur = glu_split(linear(block.need("ffn_gate.weight"), cur, block("ffn_gate.scale")), up)
        cur = build_rms_norm(g, cur, block("ffn_sub_norm.weight"), il)
        cur = add(linear(block.need("ffn_down.weight"), cur, block("ffn_down.scale")), ffn_inp)
    cur = output_norm(g, "rms", cur)
    g.finish(cur, mul_mat(g.input_weight("token_embd.weight"), cur))
