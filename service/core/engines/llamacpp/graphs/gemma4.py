"""Gemma 4: windowed and full attention with heads of two sizes, optional experts and per-layer inputs."""

from service.core.architectures.hparams import Hparams
from service.core.engines.llamacpp.compute.node import I32, OUTPUT, Node
from service.core.engines.llamacpp.compute.ops import (
    add,
    cont,
    gelu,
    get_rows,
    mul,
    reshape,
    rms_norm,
    rope,
    scale,
    view,
)
from service.core.engines.llamacpp.graphs import graph
from service.core.engines.llamacpp.graphs.blocks import (
    Routing,
    WindowedInput,
    build_attn_windowed,
    build_ffn,
    build_moe_ffn,
    build_rms_norm,
    linear,
    positions,
    token_embeddings,
    windowed_input,
)
from service.core.engines.llamacpp.graphs.blocks.output import capped_logits
from service.core.engines.llamacpp.graphs.blocks.per_layer_input import per_layer_inputs, slice_of
from service.core.engines.llamacpp.graphs.context import Block, GraphContext


def cells_owner(hp: Hparams, il: int) -> int:
    """The block whose K and V block `il` attends to: its own or, past a certain block, the last of its kind before it.

    Source: src/llama-model.cpp:2790-2797, reuse (llama.cpp in llama-cpp-python 0.3.36).
    """
    return il if hp.has_kv(il) else hp.n_layer_kv_from_start - (2 if hp.is_swa[il] else 1)


def _own_part(hp: Hparams, il: int) -> int:
    """Every block's view of the per-layer inputs is copied to its device by itself."""
    return il if hp.n_embd_per_layer else -1


@graph("gemma4", layer_key=_own_part)
def gemma4(g: GraphContext) -> None:
    """src/models/gemma4.cpp."""
    cur = scale(token_embeddings(g))
    pos, inp = positions(g), windowed_input(g)
    parts = per_layer_inputs(g, cur) if "per_layer_token_embd.weight" in g.table.outside else None
    for il in g.layers:
        block = g.block(il)
        residual = cur
        cur = build_rms_norm(g, cur, block("attn_norm.weight"), il)
        cur = _attention(g, inp, pos, block, cur, il)
        cur = build_rms_norm(g, cur, block("post_attention_norm.weight"), il)
        attn_out = add(cur, residual)
        if block.has("ffn_gate_inp.weight"):
            cur = _dense_and_routed(g, block, attn_out, il)
        else:
            cur = build_ffn(block, build_rms_norm(g, attn_out, block("ffn_norm.weight"), il), "gelu")
        cur = add(build_rms_norm(g, cur, block("post_ffw_norm.weight"), -1), attn_out)
        if parts is not None:
            cur = add(cur, _per_layer_input(g, block, cur, parts, il))
        out_scale = block("layer_output_scale.weight")
        cur = cur if out_scale is None else mul(cur, out_scale)
    normed = build_rms_norm(g, cur, g.output_weight("output_norm.weight"), -1)
    normed.flags |= OUTPUT  # every token's state seeds drafts (t_h_nextn), whether or not there are any
    wanted = get_rows(normed, g.input("out_ids", I32, g.n_outputs))
    g.finish(wanted, capped_logits(g, wanted))


def _attention(g: GraphContext, inp: WindowedInput, pos: Node, block: Block, cur: Node, il: int) -> Node:
    hp = g.hp
    head, n_head, n_head_kv = hp.n_embd_head_k(il), hp.n_head[il], hp.n_head_kv[il]
    factors = None if hp.is_swa[il] else g.shared_weight("rope_freqs.weight", il)
    fused = block("attn_qkv.weight")
    qkv = None if fused is None else linear(fused, cur, block("attn_qkv.scale"))

    def part(name: str, heads: int) -> Node | None:
        """Q, K or V in one row per token; no V where the file has none."""
        if qkv is not None:
            return cont(view(qkv, (head * heads, g.n_tokens), (qkv.nb[1],)))
        weight = block(name + ".weight")
        return None if weight is None else linear(weight, cur, block(name + ".scale"))

    def rotated(row: Node, heads: int, norm: str) -> Node:
        heads_apart = reshape(row, head, heads, g.n_tokens)
        return rope(build_rms_norm(g, heads_apart, block(norm), il), pos, factors)

    row = part("attn_q", n_head)
    if row is None:
        raise KeyError(f"blk.{il}.attn_q.weight")
    q = rotated(row, n_head, "attn_q_norm.weight")
    k = v = None
    if hp.has_kv(il):
        row_k = part("attn_k", n_head_kv)
        if row_k is None:
            raise KeyError(f"blk.{il}.attn_k.weight")
        row_v = part("attn_v", n_head_kv) or row_k
        v = rms_norm(reshape(row_v, head, n_head_kv, g.n_tokens))
        k = rotated(row_k, n_head_kv, "attn_k_norm.weight")
    return build_attn_windowed(g, inp, block, q, k, v, il, cache_il=cells_owner(hp, il))


def _dense_and_routed(g: GraphContext, block: Block, attn_out: Node, il: int) -> Node:
    """A dense network and experts side by side, each with norms of its own; the router sees the unweighted norm."""
    dense = build_ffn(block, build_rms_norm(g, attn_out, block("ffn_norm.weight"), il), "gelu")
    dense = build_rms_norm(g, dense, block("post_ffw_norm_1.weight"), il)
    cur = build_rms_norm(g, attn_out, block("pre_ffw_norm_2.weight"), il)
    router_input = mul(scale(rms_norm(attn_out)), block.need("ffn_gate_inp.scale"))
    logits = linear(block.need("ffn_gate_inp.weight"), router_input)
    routed = build_moe_ffn(g, block, cur, Routing(activation="gelu"), il, logits=logits)
    return add(dense, build_rms_norm(g, routed, block("post_ffw_norm_2.weight"), il))


def _per_layer_input(g: GraphContext, block: Block, cur: Node, parts: Node, il: int) -> Node:
    gated = gelu(linear(block.need("inp_gate.weight"), cur))
    cur = linear(block.need("proj.weight"), mul(gated, slice_of(parts)))
    return build_rms_norm(g, cur, block("post_norm.weight"), il)
