"""Multi-head latent attention: K and V of all heads are projections of one short latent per token.

Source: src/models/deepseek2.cpp:455-620, deepseek32.cpp:318-380, minicpm3.cpp:90-200, plm.cpp:60-160
(llama.cpp in llama-cpp-python 0.3.36).
"""

from dataclasses import dataclass

from service.core.engines.llamacpp.compute.node import Node
from service.core.engines.llamacpp.compute.ops import concat, cont, mul_mat, repeat_4d, reshape, rope, swap_12, view
from service.core.engines.llamacpp.graphs.blocks.norms import build_rms_norm
from service.core.engines.llamacpp.graphs.context import Block, GraphContext


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentHeads:
    """Heads of a layer.

    key, value: elements of one key and value; the last `rotated` of a key carry the position. rank: of the latent.
    """

    n_head: int
    key: int
    value: int
    rotated: int
    rank: int


def latent_heads(g: GraphContext, il: int) -> LatentHeads:
    """Heads of layer `il`, as they are outside of the latent."""
    hp = g.hp
    windowed = hp.is_swa[il] and hp.n_embd_head_k_mla_swa > 0
    if windowed:
        key, value, rank = hp.n_embd_head_k_mla_swa, hp.n_embd_head_v_mla_swa, hp.n_lora_kv_swa
    elif hp.is_mla:
        key, value, rank = hp.n_embd_head_k_mla, hp.n_embd_head_v_mla, hp.n_lora_kv
    else:
        key, value, rank = hp.n_embd_head_k(il), hp.n_embd_head_v(il), hp.n_lora_kv
    return LatentHeads(n_head=hp.n_head[il], key=key, value=value, rotated=hp.n_rot_full, rank=rank)


def query_latent(g: GraphContext, block: Block, cur: Node, il: int) -> Node:
    """The latent of Q, normed."""
    return build_rms_norm(g, mul_mat(block.need("attn_q_a.weight"), cur), block("attn_q_a_norm.weight"), il)


def project_query(g: GraphContext, block: Block, cur: Node, il: int) -> Node:
    """Q of all heads in one row, through its own latent where the file has one."""
    direct = block("attn_q.weight")
    if direct is not None:
        return mul_mat(direct, cur)
    return mul_mat(block.need("attn_q_b.weight"), query_latent(g, block, cur, il))


def compressed_kv(block: Block, cur: Node, heads: LatentHeads) -> tuple[Node, Node]:
    """The latent [rank, tokens] and the key part that all heads share [rotated, 1, tokens], views of one product."""
    both = mul_mat(block.need("attn_kv_a_mqa.weight"), cur)
    n_tokens, row = both.ne[1], both.nb[1]
    return view(both, (heads.rank, n_tokens), (row,)), view(both, (heads.rotated, 1, n_tokens), (row, row))


def absorbed_qkv(
    block: Block, q: Node, latent: Node, k_pe: Node, pos: Node | None, heads: LatentHeads
) -> tuple[Node, Node, Node]:
    """Q, K and V of attention over latents: Q is turned into latent space, K and V are the latent.

    q: one row per token; latent: normed; k_pe: rotated already; pos: None where nothing is rotated.
    """
    n_tokens = q.ne[1]
    steps = (4 * heads.key, 4 * heads.key * heads.n_head)
    q_nope = view(q, (heads.key - heads.rotated, heads.n_head, n_tokens), steps)
    q_pe = view(q, (heads.rotated, heads.n_head, n_tokens), steps)
    if pos is not None:
        q_pe = rope(q_pe, pos)
    absorbed = swap_12(mul_mat(block.need("attn_k_b.weight"), swap_12(q_nope)))
    v = reshape(latent, heads.rank, 1, n_tokens)
    return concat(absorbed, q_pe, 0), concat(v, k_pe, 0), v


def expanded_qkv(
    block: Block,
    q: Node,
    latent: Node,
    k_pe: Node,
    pos: Node,
    heads: LatentHeads,
    factors: Node | None = None,
) -> tuple[Node, Node, Node]:
    """Q, K and V of ordinary attention, K and V computed from the latent for every head."""
    n_tokens, nope = q.ne[1], heads.key - heads.rotated
    q = rope(reshape(q, heads.key, heads.n_head, n_tokens), pos, factors)
    kv = mul_mat(block.need("attn_kv_b.weight"), latent)
    steps = (4 * (nope + heads.value), 4 * (nope + heads.value) * heads.n_head)
    k_nope = view(kv, (nope, heads.n_head, n_tokens), steps)
    v = cont(view(kv, (heads.value, heads.n_head, n_tokens), steps))
    shared = repeat_4d(rope(k_pe, pos, factors), heads.rotated, heads.n_head, n_tokens, 1)
    return q, concat(k_nope, shared, 0), v
