"""Kimi Linear and K3, Ling 3: delta attention, with attention over latents in every few blocks."""

from dataclasses import replace

from service.core.architectures.hparams import Hparams
from service.core.engines.llamacpp.compute.node import I32, Node
from service.core.engines.llamacpp.compute.ops import (
    add,
    concat,
    cont,
    cont_4d,
    custom,
    get_rows,
    mul,
    mul_mat,
    repeat_4d,
    reshape,
    rms_norm,
    rope,
    scale,
    sigmoid,
    soft_max,
    sum_rows,
    tanh,
    view,
)
from service.core.engines.llamacpp.graphs import draft_layers, graph
from service.core.engines.llamacpp.graphs.blocks import (
    AttentionInput,
    attention_input,
    build_attn,
    build_attn_latent,
    build_moe_ffn,
    build_rms_norm,
    head_weight,
    output_projection,
    positions,
    state_input,
    token_embeddings,
)
from service.core.engines.llamacpp.graphs.blocks.draft_layers import draft_block, draft_head
from service.core.engines.llamacpp.graphs.blocks.draft_output import output_with_draft_seed
from service.core.engines.llamacpp.graphs.blocks.experts import Routing
from service.core.engines.llamacpp.graphs.blocks.kda import bounded_decay_gate, build_kda
from service.core.engines.llamacpp.graphs.blocks.latent import (
    absorbed_qkv,
    compressed_kv,
    latent_heads,
    project_query,
)
from service.core.engines.llamacpp.graphs.blocks.routed_ffn import dense_or_routed, file_routing, limited_units
from service.core.engines.llamacpp.graphs.context import Block, GraphContext


@graph("kimi-linear", reserves_one_sequence=True)
def kimi_linear(g: GraphContext) -> None:
    """src/models/kimi-linear.cpp."""
    cur = token_embeddings(g)
    states, inp = state_input(g), attention_input(g)
    routing = replace(file_routing(g), normalised=True)
    for il in g.layers:
        block = g.block(il)
        residual = cur
        cur = build_rms_norm(g, cur, block("attn_norm.weight"), il)
        g.expand(cur)
        if g.hp.is_recr[il]:
            cur = build_kda(g, states, block, cur, il, "softplus")
        else:
            cur = output_projection(block, _latent_attention(g, inp, None, block, cur, il))
        cur, residual = g.select_outputs(il, cur, residual)
        ffn_inp = add(cur, residual)
        cur = build_rms_norm(g, ffn_inp, block("ffn_norm.weight"), il)
        cur = add(dense_or_routed(g, block.unscaled(), cur, routing, il), ffn_inp)
    _plain_output(g, cur)


@graph("bailingmoe3", layer_key=limited_units)
def bailingmoe3(g: GraphContext) -> None:
    """src/models/bailingmoe3.cpp: a gate per head behind attention."""
    hp = g.hp
    cur = token_embeddings(g)
    states, inp, pos = state_input(g), attention_input(g), positions(g)
    routing = file_routing(g)
    for il in g.layers:
        block = g.block(il)
        residual = cur
        cur = build_rms_norm(g, cur, block("attn_norm.weight"), il)
        if hp.is_recr[il]:
            cur = build_kda(g, states, block, cur, il, "sigmoid")
        else:
            cur = _gated_heads(g, inp, pos, block, cur, il)
        ffn_inp = add(cur, residual)
        cur = build_rms_norm(g, ffn_inp, block("ffn_norm.weight"), il)
        cur = dense_or_routed(g, block.unscaled(), cur, routing, il, limited=limited_units(hp, il))
        cur = add(cur, ffn_inp)
    output_with_draft_seed(g, cur)


@draft_layers("bailingmoe3")
def bailingmoe3_draft(g: GraphContext) -> None:
    """graph_mtp of src/models/bailingmoe3.cpp."""
    inp, pos, routing = attention_input(g), positions(g), file_routing(g)

    def attention(block: Block, cur: Node, il: int) -> Node:
        return _gated_heads(g, inp, pos, block, cur, il)

    def feed_forward(block: Block, cur: Node, il: int) -> Node:
        return dense_or_routed(g, block.unscaled(), cur, routing, il, limited=limited_units(g.hp, il))

    draft_head(g, draft_block(g, attention, feed_forward), scaled=False)


def _gated_heads(g: GraphContext, inp: AttentionInput, pos: Node, block: Block, cur: Node, il: int) -> Node:
    """Attention over latents, gated by head, and its projection."""
    value, heads = g.hp.n_embd_head_v_mla, g.hp.n_head[0]
    attended = _latent_attention(g, inp, pos, block, cur, il)
    gate = sigmoid(reshape(mul_mat(block.need("attn_gate.weight"), cur), 1, heads, g.n_tokens))
    gated = mul(reshape(attended, value, heads, g.n_tokens), gate)
    return mul_mat(block.need("attn_output.weight"), cont_4d(gated, value * heads, g.n_tokens))


def _checkpoints(hp: Hparams, il: int) -> tuple[int, bool]:
    """Checkpoints of the residual before block `il`, and whether it makes one."""
    every = hp.attn_res_block_size
    return (-(-il // every), il % every == 0) if every else (0, False)


@graph("kimi-k3", layer_key=_checkpoints)
def kimi_k3(g: GraphContext) -> None:
    """src/models/kimi-k3.cpp: each half of a block starts from a mix of earlier checkpoints of the residual."""
    cur = token_embeddings(g)
    states, inp = state_input(g), attention_input(g)
    routing = replace(file_routing(g), activation="situ")
    stack: Node | None = None
    for il in g.layers:
        block = g.block(il)
        total = cur
        cur = _mixed_residual(stack, total, block("attn_res_score.weight"))
        banked = _checkpoints(g.hp, il)[1]
        if banked:
            checkpoint = reshape(total, g.n_embd, 1, g.n_tokens)
            stack = checkpoint if stack is None else concat(stack, checkpoint, 1)
        cur = build_rms_norm(g, cur, block("attn_norm.weight"), il)
        g.expand(cur)
        if g.hp.is_recr[il]:
            cur = build_kda(g, states, block, cur, il, bounded_decay_gate(g))
        else:
            cur = _gated_latent_attention(g, inp, block, cur, il)
        total = cur if banked else add(total, cur)
        cur = _mixed_residual(stack, total, block("ffn_res_score.weight"))
        cur = build_rms_norm(g, cur, block("ffn_norm.weight"), il)
        dense = il < g.hp.n_layer_dense_lead
        cur = add(total, _situ_ffn(g, block, cur) if dense else _latent_experts(g, block, cur, routing, il))
    cur = _mixed_residual(stack, cur, g.output_weight("output_res_score.weight"))
    _plain_output(g, get_rows(cur, g.input("out_ids", I32, g.n_outputs)))


def _mixed_residual(stack: Node | None, cur: Node, score: Node | None) -> Node:
    """Checkpoints and the residual, weighed by scores of each: res_mix."""
    if stack is None or score is None:
        return cur
    count, n_tokens = stack.ne[1], stack.ne[2]
    scores = reshape(sum_rows(mul(rms_norm(stack), score)), count, n_tokens)
    probs = soft_max(concat(scores, sum_rows(mul(rms_norm(cur), score)), 0))
    of_stack = cont(view(probs, (count, n_tokens), probs.nb[1:2]))
    of_cur = cont(view(probs, (1, n_tokens), probs.nb[1:2]))
    mixed = custom((stack.ne[0], n_tokens, 1, 1), (stack, of_stack))
    return add(mixed, mul(cur, of_cur))


def _situ(g: GraphContext, gate: Node, up: Node) -> Node:
    act = mul(scale(tanh(scale(gate))), sigmoid(gate))
    if g.number("activation.situ_linear_beta") > 0.0:
        up = scale(tanh(scale(up)))
    return mul(act, up)


def _situ_ffn(g: GraphContext, block: Block, cur: Node, suffix: str = "") -> Node:
    gate, up = (mul_mat(block.need(f"ffn_{name}{suffix}.weight"), cur) for name in ("gate", "up"))
    return mul_mat(block.need(f"ffn_down{suffix}.weight"), _situ(g, gate, up))


def _latent_experts(g: GraphContext, block: Block, cur: Node, routing: Routing, il: int) -> Node:
    """Experts in a narrower space, beside a shared one that reads the full input."""
    down, up, norm = (block(f"ffn_routed_{name}.weight") for name in ("down", "up", "norm"))
    narrow = cur if down is None else mul_mat(down, cur)
    logits = mul_mat(block.need("ffn_gate_inp.weight"), cur)
    out = build_moe_ffn(g, block.unscaled(), narrow, routing, il, logits=logits)
    if norm is not None:
        out = build_rms_norm(g, out, norm, il)
    if up is not None:
        out = mul_mat(up, out)
    return add(out, _situ_ffn(g, block, cur, "_shexp")) if block.has("ffn_gate_shexp.weight") else out


def _gated_latent_attention(g: GraphContext, inp: AttentionInput, block: Block, cur: Node, il: int) -> Node:
    out, gate = _latent_attention(g, inp, None, block, cur, il), block("attn_gate.weight")
    if gate is not None:
        out = mul(out, sigmoid(mul_mat(gate, cur)))
    return mul_mat(block.need("attn_output.weight"), out)


def _latent_attention(g: GraphContext, inp: AttentionInput, pos: Node | None, block: Block, cur: Node, il: int) -> Node:
    """Attention over latents, or over keys and values made of them, without the output projection."""
    heads = latent_heads(g, il)
    q = project_query(g, block, cur, il)
    latent, k_pe = compressed_kv(block, cur, heads)
    if pos is not None:
        k_pe = rope(k_pe, pos)
    latent = build_rms_norm(g, latent, block("attn_kv_a_norm.weight"), il)
    v_mla = block("attn_v_b.weight")
    if v_mla is not None:
        q, k, v = absorbed_qkv(block, q, latent, k_pe, pos, heads)
        return build_attn_latent(g, inp, None, q, k, v, il, v_mla=v_mla)
    kv = mul_mat(block.need("attn_kv_b.weight"), latent)
    nope = heads.key - heads.rotated
    step = (4 * (nope + heads.value), 4 * (nope + heads.value) * heads.n_head)
    v = cont(view(kv, (heads.value, heads.n_head, g.n_tokens), step))
    k = concat(
        repeat_4d(k_pe, heads.rotated, heads.n_head, g.n_tokens, 1),
        view(kv, (nope, heads.n_head, g.n_tokens), step),
        0,
    )
    return build_attn(g, inp, None, reshape(q, heads.key, heads.n_head, g.n_tokens), k, v, il)


def _plain_output(g: GraphContext, cur: Node) -> None:
    """Norm and head without scale or bias."""
    cur = build_rms_norm(g, cur, g.output_weight("output_norm.weight"), -1)
    g.finish(cur, mul_mat(head_weight(g), cur))
