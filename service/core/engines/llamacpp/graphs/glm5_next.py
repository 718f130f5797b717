"""GLM 5 Next: delta attention and sparse latent attention between several residual streams."""

from dataclasses import replace

from service.core.architectures.hparams import Hparams
from service.core.engines.llamacpp.compute.node import Node
from service.core.engines.llamacpp.compute.ops import (
    add,
    cont,
    get_rows,
    mul_mat,
    permute,
    reshape,
    scale,
    soft_max,
    swap_12,
    transpose,
    view,
)
from service.core.engines.llamacpp.graphs import graph
from service.core.engines.llamacpp.graphs.blocks import (
    AttentionInput,
    attention_input,
    build_rms_norm,
    head_weight,
    mha,
    read_k,
    state_input,
    store_rows,
    token_embeddings,
)
from service.core.engines.llamacpp.graphs.blocks.hyper_connections import (
    merge_streams,
    spread_streams,
    update_untied_streams,
    wanted_rows,
)
from service.core.engines.llamacpp.graphs.blocks.kda import bounded_decay_gate, build_kda
from service.core.engines.llamacpp.graphs.blocks.latent import query_latent
from service.core.engines.llamacpp.graphs.blocks.pooled_indexer import PoolInput, choose_pools, pool_input
from service.core.engines.llamacpp.graphs.blocks.routed_ffn import dense_or_routed, file_routing, limited_units
from service.core.engines.llamacpp.graphs.context import Block, GraphContext

_CHOSEN = "chosen_cells"


def _limits(hp: Hparams, il: int) -> tuple[bool, bool]:
    """Limits of gated units; a file that states only those of routed experts means both."""
    routed, shared = limited_units(hp, il)
    return routed, shared if hp.swiglu_clamp_shexp else routed


@graph("glm5-next", layer_key=_limits)
def glm5_next(g: GraphContext) -> None:
    """src/models/glm5-next.cpp."""
    cur = token_embeddings(g)
    states, inp, pools = state_input(g), attention_input(g), pool_input(g)
    routing = replace(file_routing(g, "sigmoid"), fused_clamp=True)
    streams = spread_streams(g, cur)
    for il in g.layers:
        block = g.block(il)
        cur, mixing = merge_streams(g, block, "hc_attn", streams)
        cur = build_rms_norm(g, cur, block("attn_norm.weight"), il)
        g.expand(cur)
        if g.hp.is_recr[il]:
            cur = build_kda(g, states, block, cur, il, bounded_decay_gate(g))
        else:
            cur = _sparse_attention(g, inp, pools, block, cur, il)
        streams = update_untied_streams(g, cur, streams, mixing, il)
        cur, mixing = merge_streams(g, block, "hc_ffn", streams)
        cur = build_rms_norm(g, cur, block("ffn_norm.weight"), il)
        cur = dense_or_routed(g, block.unscaled(), cur, routing, il, limited=_limits(g.hp, il))
        streams = update_untied_streams(g, cur, streams, mixing, il)
    cur = build_rms_norm(g, _mean(wanted_rows(g, streams)), g.output_weight("output_norm.weight"), -1)
    g.finish(cur, mul_mat(head_weight(g), cur))


def _mean(streams: Node) -> Node:
    """build_hc_mean."""
    width, count, n_rows, _ = streams.ne
    parts = [view(streams, (width, n_rows), streams.nb[2:3]) for _ in range(count)]
    cur = parts[0]
    for part in parts[1:]:
        cur = add(cur, part)
    return scale(cur)


def _sparse_attention(g: GraphContext, inp: AttentionInput, pools: PoolInput, block: Block, cur: Node, il: int) -> Node:
    """build_dsa_layer: attention over latents, without positions, to the cells that the latest indexer has chosen."""
    hp, n_tokens = g.hp, g.n_tokens
    heads, rank = hp.n_head[0], hp.n_lora_kv
    q_latent = query_latent(g, block, cur, il)
    q = reshape(mul_mat(block.need("attn_q_b.weight"), q_latent), hp.n_embd_head_k_mla, heads, n_tokens)
    latent = mul_mat(block.need("attn_kv_a_mqa.weight"), cur)
    latent = reshape(build_rms_norm(g, latent, block("attn_kv_a_norm.weight"), il), rank, 1, n_tokens)
    q = swap_12(mul_mat(block.need("attn_k_b.weight"), swap_12(q)))
    if hp.is_indexer_full[il]:
        g.memo[_CHOSEN] = choose_pools(g, pools, block, cur, q_latent, inp.mask, il)
    chosen = g.memo[_CHOSEN]
    g.expand(q)
    g.expand(latent)
    cells = g.cache(inp.kind, il)
    g.expand(store_rows(cells, latent, inp.k_idxs))
    v_b = block.need("attn_v_b.weight")
    if pools.gathers:
        g.expand(inp.mask)
        out = _gathered(q, cells, chosen, pools.slot_mask, v_b)
    else:
        keys = read_k(g, cells, il)
        values = view(keys, (rank, *keys.ne[1:]), keys.nb[1:])
        out = mha(g, q, keys, values, reshape(chosen, *inp.mask.ne), v_mla=v_b)
    return mul_mat(block.need("attn_output.weight"), out)


def _gathered(q: Node, cells: Node, chosen: Node, slot_mask: Node, v_b: Node) -> Node:
    """Attention to gathered cells, token by token."""
    n_chosen, n_tokens = chosen.ne[0], chosen.ne[1]
    rank, heads = q.ne[0], q.ne[1]
    rows = view(cells, (cells.ne[0], cells.ne[1] * cells.ne[2]), cells.nb[1:2])
    keys = reshape(get_rows(rows, reshape(chosen, n_chosen * n_tokens)), rank, n_chosen, 1, n_tokens)
    kq = soft_max(mul_mat(keys, permute(q, 0, 2, 3, 1)), slot_mask)
    kqv = mul_mat(v_b, mul_mat(cont(transpose(keys)), kq))
    return reshape(cont(swap_12(kqv)), kqv.ne[0] * heads, n_tokens)
