"""Models that read images and text in one stream: Chameleon and CogVLM."""

from typing import Final

from service.core.engines.llamacpp.compute.node import F32, leaf
from service.core.engines.llamacpp.compute.ops import add, clamp, custom
from service.core.engines.llamacpp.graphs import graph
from service.core.engines.llamacpp.graphs.blocks.attend import cached_attention
from service.core.engines.llamacpp.graphs.blocks.dense import DenseModel, rotated_qkv
from service.core.engines.llamacpp.graphs.blocks.feed_forward import build_ffn
from service.core.engines.llamacpp.graphs.blocks.inputs import token_embeddings
from service.core.engines.llamacpp.graphs.blocks.norms import build_rms_norm, output_norm
from service.core.engines.llamacpp.graphs.blocks.output import logits_of
from service.core.engines.llamacpp.graphs.context import GraphContext

IMAGE_TOKENS: Final = 8192
"""img_token_end_idx - img_token_start_idx, src/models/chameleon.cpp:189-191 (llama.cpp in llama-cpp-python 0.3.36)."""


@graph("chameleon")
def chameleon(g: GraphContext) -> None:
    """src/models/chameleon.cpp: norms behind attention and network with `swin_norm`; logits of image tokens masked."""
    swin = g.metadata.get("chameleon.swin_norm") is True
    model = DenseModel(head_norm="layer")
    cur, attend = token_embeddings(g), cached_attention(g)
    for il in g.layers:
        block = g.block(il)
        attn_norm, ffn_norm = block("attn_norm.weight"), block("ffn_norm.weight")
        residual = cur
        if not swin:
            cur = build_rms_norm(g, cur, attn_norm, il)
        cur = attend(block, *rotated_qkv(g, model, block, cur, il), il)
        cur, residual = g.select_outputs(il, cur, residual)
        if swin:
            cur = build_rms_norm(g, cur, attn_norm, il)
        ffn_inp = add(cur, residual)
        if not swin:
            cur = build_rms_norm(g, ffn_inp, ffn_norm, il)
        cur = build_ffn(block, cur)  # with swin_norm that is attention's normed output, without the residual
        if swin:
            cur = build_rms_norm(g, cur, ffn_norm, il)
        cur = add(cur, ffn_inp)
    cur = output_norm(g, "rms", cur)
    logits = logits_of(g, cur)
    masked = clamp(leaf(F32, (IMAGE_TOKENS, 1, 1, 1)))
    g.finish(cur, custom(logits.ne, (logits, masked)))


@graph("cogvlm")
def cogvlm(g: GraphContext) -> None:
    """src/models/cogvlm.cpp: text goes through the first set of weights; logits of every token."""
    model = DenseModel()
    cur, attend = token_embeddings(g), cached_attention(g)
    for il in g.layers:
        block = g.block(il)
        residual = cur
        cur = build_rms_norm(g, cur, block("attn_norm.weight"), il)
        cur = attend(block, *rotated_qkv(g, model, block, cur, il), il)
        ffn_inp = add(cur, residual)
        cur = build_rms_norm(g, ffn_inp, block("ffn_norm.weight"), il)
        cur = add(build_ffn(block, cur), ffn_inp)
    cur = output_norm(g, "rms", cur)
    g.finish(cur, logits_of(g, cur))
