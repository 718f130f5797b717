"""Dense blocks whose attention is gated by a sigmoid of the block's input: Muse Glimmer and Spark 2.5."""

from service.core.architectures.hparams import Hparams
from service.core.engines.llamacpp.compute.ops import add, mul, mul_mat, reshape, rms_norm, scale, sigmoid, tanh
from service.core.engines.llamacpp.graphs import graph
from service.core.engines.llamacpp.graphs.blocks.attend import cached_attention
from service.core.engines.llamacpp.graphs.blocks.dense import DenseModel, rotated_qkv
from service.core.engines.llamacpp.graphs.blocks.feed_forward import build_ffn
from service.core.engines.llamacpp.graphs.blocks.inputs import token_embeddings
from service.core.engines.llamacpp.graphs.blocks.linear import linear
from service.core.engines.llamacpp.graphs.blocks.norms import build_rms_norm, output_norm
from service.core.engines.llamacpp.graphs.blocks.output import logits_of
from service.core.engines.llamacpp.graphs.context import GraphContext


def _windowed_blocks(hp: Hparams, il: int) -> bool:
    """use_rope, src/models/muse-glimmer.cpp:96."""
    return hp.is_swa[il]


@graph("muse-glimmer")
def muse_glimmer(g: GraphContext) -> None:
    """src/models/muse-glimmer.cpp: post-norms that are tied to no backend, rope in windowed blocks."""
    model = DenseModel(rope=_windowed_blocks)
    cur = rms_norm(token_embeddings(g))
    attend = cached_attention(g)
    for il in g.layers:
        block = g.block(il)
        residual = cur
        attn_inp = build_rms_norm(g, cur, block("attn_norm.weight"), il)
        cur = attend(None, *rotated_qkv(g, model, block, attn_inp, il), il)
        gate = sigmoid(mul_mat(block.need("attn_gate.weight"), attn_inp))
        cur = linear(block.need("attn_output.weight"), mul(cur, gate), block("attn_output.scale"))
        cur = mul(rms_norm(cur), block.need("post_attention_norm.weight"))
        cur, residual = g.select_outputs(il, cur, residual)
        ffn_inp = add(cur, residual)
        cur = build_ffn(block, build_rms_norm(g, ffn_inp, block("ffn_norm.weight"), il))
        cur = add(mul(rms_norm(cur), block.need("post_ffw_norm.weight")), ffn_inp)
    cur = output_norm(g, "rms", cur)
    logits = scale(logits_of(g, cur))
    if g.hp.f_final_logit_softcapping:
        logits = scale(tanh(scale(logits)))
    g.finish(cur, logits)


@graph("spark2_5")
def spark2_5(g: GraphContext) -> None:
    """src/models/spark2-5.cpp: one gate per head."""
    model = DenseModel()
    cur, attend, hp = token_embeddings(g), cached_attention(g), g.hp
    for il in g.layers:
        block = g.block(il)
        residual = cur
        attn_inp = build_rms_norm(g, cur, block("attn_norm.weight"), il)
        cur = attend(None, *rotated_qkv(g, model, block, attn_inp, il), il)
        gate = sigmoid(mul_mat(block.need("attn_gate.weight"), attn_inp))
        n_head, n_tokens = hp.n_head[il], cur.ne[1]
        cur = mul(reshape(cur, hp.n_embd_head_v(il), n_head, n_tokens), reshape(gate, 1, n_head, n_tokens))
        cur = reshape(cur, cur.ne[0] * n_head, n_tokens)
        cur = linear(block.need("attn_output.weight"), cur, block("attn_output.scale"))
        cur, residual = g.select_outputs(il, cur, residual)
        ffn_inp = add(cur, residual)
        cur = build_rms_norm(g, ffn_inp, block("ffn_norm.weight"), il)
        cur = add(build_ffn(block, cur, "gelu"), ffn_inp)
    cur = output_norm(g, "rms", cur)
    g.finish(cur, logits_of(g, cur))
