"""Granite Switch: low-rank adapters that tokens switch on, found by a router layer of attention."""

from service.core.engines.llamacpp.compute.node import F32, I32, Node
from service.core.engines.llamacpp.compute.ops import (
    add,
    cast,
    clamp,
    cont,
    get_rows,
    mul,
    mul_mat,
    mul_mat_id,
    pad,
    reshape,
    rope,
    scale,
    silu,
    unary,
    view,
)
from service.core.engines.llamacpp.graphs import graph
from service.core.engines.llamacpp.graphs.blocks import (
    AttentionInput,
    attention_input,
    build_attn,
    build_rms_norm,
    logits_of,
    positions,
    rope_factors,
)
from service.core.engines.llamacpp.graphs.context import Block, GraphContext


def _adapted(block: Block, name: str, cur: Node, adapters: Node) -> Node:
    """What the adapter of each token adds to a product."""
    n_in, n_tokens, _, _ = cur.ne
    x, ids = reshape(cur, n_in, 1, n_tokens), reshape(adapters, 1, n_tokens)
    low = mul_mat_id(block.need(name + ".lora_a"), x, ids)
    delta = mul_mat_id(block.need(name + ".lora_b"), low, ids)
    return reshape(delta, delta.ne[0], n_tokens)


def _switched(block: Block, name: str, cur: Node, adapters: Node) -> Node:
    """A product with its adapter."""
    return add(mul_mat(block.need(name + ".weight"), cur), _adapted(block, name, cur, adapters))


def _router(g: GraphContext, inp: AttentionInput) -> Node:
    """The adapter of every token: a layer of attention whose Q, K and V are inputs."""
    head, n_tokens = g.hp.n_embd_head_v(0), g.n_tokens
    q, k, v = (
        pad(reshape(g.input(name, F32, n_tokens), 1, 1, n_tokens), head - 1)
        for name in ("router_q", "router_ksig", "router_vval")
    )
    out = build_attn(g, inp, None, q, k, v, g.hp.router_layer)
    slots = cont(view(out, (1, n_tokens), (out.nb[1],)))
    return cast(unary(clamp(reshape(slots, n_tokens))), I32)


def _attention(g: GraphContext, inp: AttentionInput, pos: Node | None, cur: Node, adapters: Node, il: int) -> Node:
    hp, block, n_tokens = g.hp, g.block(il), g.n_tokens
    head, heads, heads_kv = hp.n_embd_head_v(il), hp.n_head[il], hp.n_head_kv[il]
    joint = mul_mat(block.need("attn_qkv.weight"), cur)
    parts = []
    for name, n in (("attn_q", heads), ("attn_k", heads_kv), ("attn_v", heads_kv)):
        part = cont(view(joint, (head * n, n_tokens), (joint.nb[1],)))
        parts.append(reshape(add(part, _adapted(block, name, cur, adapters)), head, n, n_tokens))
    q, k, v = parts
    if pos is not None:
        factors = rope_factors(g, il)
        q, k = rope(q, pos, factors), rope(k, pos, factors)
    return _switched(block, "attn_output", build_attn(g, inp, None, q, k, v, il), adapters)


@graph("graniteswitch")
def granite_switch(g: GraphContext) -> None:
    """src/models/granite-switch.cpp."""
    cur = get_rows(g.input_weight("token_embd.weight"), g.input("sub_tokens", I32, g.n_tokens))
    if g.number("embedding_scale") != 0.0:
        cur = scale(cur)
    pos = positions(g) if g.metadata.get(g.prefix + "rope.scaling.finetuned", True) is True else None
    inp, scaled = attention_input(g), g.number("residual_scale") != 0.0
    adapters = _router(g, inp)
    for il in g.layers:
        block = g.block(il)
        residual = cur
        cur = _attention(g, inp, pos, build_rms_norm(g, cur, block("attn_norm.weight"), il), adapters, il)
        cur, residual = g.select_outputs(il, cur, residual)
        if il == g.last:
            rows = g.input("out_ids", I32, g.n_outputs)
            adapters = reshape(get_rows(reshape(adapters, 1, adapters.ne[0]), rows), g.n_outputs)
        ffn_inp = add(scale(cur) if scaled else cur, residual)
        cur = build_rms_norm(g, ffn_inp, block("ffn_norm.weight"), il)
        gate, up = _switched(block, "ffn_gate", cur, adapters), _switched(block, "ffn_up", cur, adapters)
        cur = _switched(block, "ffn_down", mul(silu(gate), up), adapters)
        cur = add(scale(cur) if scaled else cur, ffn_inp)
    cur = build_rms_norm(g, cur, g.output_weight("output_norm.weight"), -1)
    g.finish(cur, scale(logits_of(g, cur)))
