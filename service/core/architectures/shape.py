"""Layers, heads and widths of a model, as its metadata states them."""

from typing import TypedDict

from service.core.architectures.architecture import Architecture
from service.core.architectures.metadata import MAX_LAYERS, Metadata, unreadable
from service.core.types import Model


class Layers(TypedDict):
    """How many layers of each sort a model has."""

    n_layer_all: int
    n_layer_nextn: int
    router_layer: int
    n_loops: int
    dec_n_layer: int


class Heads(TypedDict):
    """Attention heads and feed-forward width of every layer."""

    n_head: tuple[int, ...]
    n_head_kv: tuple[int, ...]
    n_ff: tuple[int, ...]


class HeadSizes(TypedDict):
    """Sizes of one attention head."""

    n_embd_head_k_full: int
    n_embd_head_v_full: int
    n_embd_head_k_swa: int
    n_embd_head_v_swa: int
    n_rot_full: int
    n_rot_swa: int


def read_layers(meta: Metadata, arch: Architecture, model: Model) -> Layers:
    """Layer counts; a router layer and repeated blocks are added to the blocks of the file.

    Source: src/llama-model.cpp:1326-1329, src/models/granite-switch.cpp, nanbeige.cpp, deepseek4.cpp (nextn probe),
    t5.cpp (llama.cpp in llama-cpp-python 0.3.36).
    """
    blocks = meta.count("block_count")
    nextn = meta.count("nextn_predict_layers", 0)
    if not 0 < blocks <= MAX_LAYERS or nextn > blocks:
        raise unreadable(meta.key("block_count"), f"is {blocks} with {nextn} draft layers, not 1 to {MAX_LAYERS}")
    if arch.nextn_needs_tensors and nextn and f"blk.{blocks - nextn}.nextn.eh_proj.weight" not in model.tensor_by_name:
        nextn = 0
    trunk = blocks - nextn
    if arch.router_layer:
        return _checked(
            meta, Layers(n_layer_all=trunk + 1, n_layer_nextn=1, router_layer=trunk, n_loops=1, dec_n_layer=0)
        )
    loops = max(meta.count("num_loops", 1), 1) if arch.loops else 1
    decoder = meta.count("decoder_block_count", trunk) if arch.encoder else 0
    return _checked(
        meta,
        Layers(n_layer_all=blocks * loops, n_layer_nextn=nextn, router_layer=-1, n_loops=loops, dec_n_layer=decoder),
    )


def blocks(layers: Layers) -> int:
    """Blocks of the file, the length of its per-layer arrays."""
    return layers["n_layer_all"] // layers["n_loops"] - (1 if layers["router_layer"] >= 0 else 0)


def spread(per_block: tuple[int, ...], layers: Layers, router: int) -> tuple[int, ...]:
    """Values of the blocks as values of the layers: repeated for each loop, then the router layer's."""
    return per_block * layers["n_loops"] + ((router,) if layers["router_layer"] >= 0 else ())


def _checked(meta: Metadata, layers: Layers) -> Layers:
    if layers["n_layer_all"] > MAX_LAYERS:
        raise unreadable(meta.key("block_count"), f"makes {layers['n_layer_all']} layers, more than {MAX_LAYERS}")
    return layers


def read_heads(meta: Metadata, layers: Layers) -> Heads:
    """Heads and feed-forward width per layer; KV heads default to the heads, looped blocks repeat their values.

    Source: src/llama-model.cpp:1396-1406, src/models/granite-switch.cpp, nanbeige.cpp
    (llama.cpp in llama-cpp-python 0.3.36).
    """
    n_blocks = blocks(layers)
    n_head = meta.per_layer("attention.head_count", n_blocks, (0,) * n_blocks)
    n_head_kv = meta.per_layer("attention.head_count_kv", n_blocks, n_head)
    n_ff = meta.per_layer("feed_forward_length", n_blocks, (0,) * n_blocks)
    return Heads(n_head=spread(n_head, layers, 1), n_head_kv=spread(n_head_kv, layers, 1), n_ff=spread(n_ff, layers, 0))


def read_head_sizes(meta: Metadata, arch: Architecture, n_embd: int, n_head: int) -> HeadSizes:
    """Head sizes: `key_length` and `value_length`, else the embedding over the heads; sliding-window layers may differ.

    Source: src/llama-model.cpp:1441-1478, src/models/kimi-k3.cpp, glm5-next.cpp, step35.cpp
    (llama.cpp in llama-cpp-python 0.3.36).
    """
    if n_head == 0 and not arch.head_sizes_without_heads:
        k = v = rot = 0
    else:
        even = n_embd // n_head if n_head else 0
        k = meta.count("attention.key_length", even)
        v = meta.count("attention.value_length", even)
        rot = meta.count("rope.dimension_count", k)
    k_swa = meta.count("attention.key_length_swa", k)
    v_swa = meta.count("attention.value_length_swa", v)
    rot_swa = meta.count("rope.dimension_count_swa", rot)
    if arch.v_is_latent:
        v = meta.count("attention.kv_lora_rank")
    return HeadSizes(
        n_embd_head_k_full=k,
        n_embd_head_v_full=v,
        n_embd_head_k_swa=k_swa,
        n_embd_head_v_swa=v_swa,
        n_rot_full=rot // 2 if arch.halves_full_rope else rot,
        n_rot_swa=rot_swa,
    )
