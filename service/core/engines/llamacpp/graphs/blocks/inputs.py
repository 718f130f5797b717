"""Graph inputs: tokens, positions, masks and cache indices.

Source: src/llama-graph.cpp:2330-2470, 2780-2990, 3500-3620 and src/llama-kv-cache.cpp:1419-1487
(llama.cpp in llama-cpp-python 0.3.36).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from service.core.engines.llamacpp.compute.node import F16, F32, I32, I64, Node, Shape
from service.core.engines.llamacpp.compute.ops import cast, cont, get_rows, pad, scale, view
from service.core.engines.llamacpp.graphs.context import GraphContext
from service.core.types import TensorType


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionInput:
    """Inputs of attention over one KV cache: which cells are written, which are seen, and the rotations.

    kind: the cache's name ("base", "swa", …); k_rot, v_rot: Hadamard matrices of quantised caches.
    """

    kind: str
    k_idxs: Node
    v_idxs: Node
    mask: Node
    k_rot: Node | None
    v_rot: Node | None


def token_embeddings(g: GraphContext, table: Node | None = None) -> Node:
    """The hidden state of the batch's tokens; with multimodal input the embeddings' input exists as well, unused.

    Source: build_inp_embd, src/llama-graph.cpp:2331-2411.
    """
    tokens = g.input("inp_tokens", I32, g.n_tokens)
    direct = g.input("inp_embd", F32, g.hp.n_embd_inp, g.n_tokens)
    cur = get_rows(g.input_weight("token_embd.weight") if table is None else table, tokens)
    if g.hp.n_embd_inp != g.hp.n_embd:
        cur = pad(cur, g.hp.n_embd_inp - g.hp.n_embd)
    g.expand(cur)
    g.expand(direct)
    g.memo["inp_embd_rows"] = cur
    if g.hp.n_embd_inp != g.hp.n_embd:
        cur = view(cur, (g.hp.n_embd, g.n_tokens), (cur.nb[1],))
    g.memo["t_inp_embd"] = cur
    if g.number("embedding_scale") != 0.0:
        if not cur.is_contiguous:
            cur = cont(cur)
        cur = scale(cur)
    g.expand(cur)
    return cur


def positions(g: GraphContext) -> Node:
    """Positions of the tokens, several per token for multi-axis rope."""
    return g.input("inp_pos", I32, g.n_tokens * g.hp.n_pos_per_embd)


def attention_scale(g: GraphContext) -> Node:
    """Temperature per position (llama 4, mistral 3)."""
    return g.input("inp_attn_scale", F32, 1, 1, g.n_tokens)


def _uniform(sizes: Sequence[int]) -> int:
    """The one size all layers of a cache share; 0 where it has no layers or several sizes."""
    return sizes[0] if sizes and min(sizes) == max(sizes) else 0


def rotation_width(head_size: int) -> int:
    """The largest power of two, 64 or more, that divides a key head (build_input_k_rot)."""
    width = 64
    while head_size % (2 * width) == 0:
        width *= 2
    return width


def cache_layers(g: GraphContext, kind: str) -> list[int]:
    """Layers that own cells in the cache `kind`."""
    return [il for il, width in enumerate(g.caches[kind].layout.first) if width]


def attention_input(g: GraphContext, kind: str = "base") -> AttentionInput:
    """Inputs of attention over the cache `kind`.

    Source: build_attn_inp_kv_impl and build_attn_inp_kq_mask, src/llama-graph.cpp:30-48, 2823-2850; rotations
    where the cache is quantised and all its heads have one size that 64 divides: src/llama-kv-cache.cpp:320-338.
    """
    ctx, hp = g.ctx, g.hp
    k_rot = v_rot = None
    if ctx.type_k.block_elements > 1 or ctx.type_v.block_elements > 1:
        layers = cache_layers(g, kind)
        k_head = _uniform([hp.n_embd_head_k(il) for il in layers])
        v_head = 0 if hp.is_mla else _uniform([hp.n_embd_head_v(il) for il in layers])
        if k_head and ctx.type_k.block_elements > 1 and hp.n_embd_head_k() % 64 == 0:
            width = rotation_width(k_head)
            k_rot = g.input(f"k_rot_{kind}", F32, width, width)
        if v_head and ctx.type_v.block_elements > 1 and hp.n_embd_head_v() % 64 == 0:
            v_rot = g.input(f"v_rot_{kind}", F32, 64, 64)
    v_rows = g.n_tokens * hp.n_embd_v_gqa_max if ctx.v_padded else g.n_tokens
    return AttentionInput(
        kind=kind,
        k_idxs=g.input(f"k_idxs_{kind}", I64, g.n_tokens),
        v_idxs=g.input(f"v_idxs_{kind}", I64, v_rows),
        mask=attention_mask(g, f"mask_{kind}", g.cells(kind)),
        k_rot=k_rot,
        v_rot=v_rot,
    )


def attention_mask(g: GraphContext, name: str, cells: int, type_: TensorType | None = None) -> Node:
    """Which of `cells` each token sees, per stream, in the type attention wants unless one is given."""
    shape = (cells, g.n_tokens // g.n_stream, 1, g.n_stream)
    return mask_input(g, name, shape) if type_ is None else g.input(name, type_, *shape)


def mask_input(g: GraphContext, name: str, shape: Shape) -> Node:
    """A mask, F16 for fused attention; before such inputs existed an F32 one that every device converts.

    Source: build_attn_inp_kq_mask, src/llama-graph.cpp:30-48; pull request 23764.
    """
    if "f16_masks" in g.rules or not g.flash_attn:
        return g.input(name, F16 if g.flash_attn else F32, *shape)
    key = f"{name}_f16"
    found = g.memo.get(key)
    if found is None:
        found = g.memo[key] = cast(g.input(name, F32, *shape), F16)
    return found
