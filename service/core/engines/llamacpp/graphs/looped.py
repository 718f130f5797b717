"""Models that run the same blocks several times, each time with a cache of its own."""

from service.core.architectures.hparams import Hparams
from service.core.engines.llamacpp.compute.node import I32, Node
from service.core.engines.llamacpp.compute.ops import add, get_rows, mul, mul_mat, rms_norm, rope, sigmoid
from service.core.engines.llamacpp.graphs import graph
from service.core.engines.llamacpp.graphs.blocks.attend import Attend, cached_attention
from service.core.engines.llamacpp.graphs.blocks.attention import build_qkv
from service.core.engines.llamacpp.graphs.blocks.feed_forward import build_ffn
from service.core.engines.llamacpp.graphs.blocks.inputs import positions, token_embeddings
from service.core.engines.llamacpp.graphs.blocks.linear import linear
from service.core.engines.llamacpp.graphs.blocks.norms import build_rms_norm
from service.core.engines.llamacpp.graphs.blocks.output import logits_of, rms_output
from service.core.engines.llamacpp.graphs.blocks.rope import rope_factors
from service.core.engines.llamacpp.graphs.context import GraphContext


def _every_slot(_hp: Hparams, il: int) -> int:
    """A slot's weights may lie on another device than its cache, so that no two slots are alike."""
    return il


@graph("nanbeige", layer_key=_every_slot)
def nanbeige(g: GraphContext) -> None:
    """src/models/nanbeige.cpp: all blocks `num_loops` times over, with the output norm between two loops."""
    n_blocks = len(g.table.blocks)
    normed = g.metadata.get("nanbeige.skip_loop_final_norm") is not True
    cur, attend, pos = token_embeddings(g), cached_attention(g), positions(g)
    for il in g.layers:
        own = il % n_blocks
        block, factors = g.block(own), rope_factors(g, own)
        residual = cur
        cur = build_rms_norm(g, cur, block("attn_norm.weight"), il)
        q, k, v = build_qkv(g, block, cur, il)
        cur = attend(block, rope(q, pos, factors), rope(k, pos, factors), v, il)
        cur, residual = g.select_outputs(il, cur, residual)
        ffn_inp = add(cur, residual)
        cur = build_rms_norm(g, ffn_inp, block("ffn_norm.weight"), il)
        cur = add(build_ffn(block, cur), ffn_inp)
        if normed and own == n_blocks - 1 and il != g.last:
            cur = build_rms_norm(g, cur, g.output_weight("output_norm.weight"), il)
    rms_output(g, cur)


@graph("hrm_text", layer_key=_every_slot)
def hrm_text(g: GraphContext) -> None:
    """src/models/hrm-text.cpp: cycles of a low stack, each ended by one pass through a high stack."""
    hp = g.hp
    size, low_passes = hp.n_hrm_layers_per_stack, hp.n_hrm_l_cycles
    high, attend = token_embeddings(g), cached_attention(g)
    low = g.shared_weight("hrm.z_l_init", 0)
    if low is None:
        raise KeyError("hrm.z_l_init")
    slot = 0
    for _ in range(hp.n_hrm_h_cycles):
        for _ in range(low_passes):
            low = _stack(g, attend, add(high, low), slot, 0)
            slot += size
        high = _stack(g, attend, add(high, low), slot, size)
        slot += size
    cur = get_rows(high, g.input("out_ids", I32, g.n_outputs))
    g.finish(cur, logits_of(g, cur))


def _stack(g: GraphContext, attend: Attend, cur: Node, slot: int, first_block: int) -> Node:
    """One pass through the blocks from `first_block` on, with the caches from `slot` on."""
    pos = positions(g)
    for i in range(g.hp.n_hrm_layers_per_stack):
        block, il = g.block(first_block + i), slot + i
        residual = cur
        attn_inp = rms_norm(cur)
        q, k, v = build_qkv(g, block, attn_inp, il)
        cur = attend(None, rope(q, pos), rope(k, pos), v, il)
        cur = mul(cur, sigmoid(mul_mat(block.need("attn_gate.weight"), attn_inp)))
        cur = linear(block.need("attn_output.weight"), cur, block("attn_output.scale"))
        residual = cur = add(cur, residual)
        cur = add(build_ffn(block, rms_norm(cur)), residual)
    return rms_norm(cur)
