"""Recurrent state: its layers and rows, always f32, whatever the context."""

from service.core.architectures.hparams import Hparams
from service.core.engines.llamacpp.cache_layout import CacheLayout, LayerFilter, layout


def state_layouts(hp: Hparams, keep: LayerFilter) -> tuple[CacheLayout, ...]:
    """Rolling state and state proper of the trunk layers that `keep` names, and the n-gram history of PLE layers.

    Each has a row per sequence, and one more per sequence for every draft snapshot.

    Source: llama_memory_recurrent, src/llama-memory-recurrent.cpp:24-113 (llama.cpp in llama-cpp-python 0.3.36).
    """
    kept = tuple(il < hp.n_layer and keep(il) for il in range(hp.n_layer_all))
    n_embd_r, n_embd_s, history = hp.n_embd_r, hp.n_embd_s, hp.ple_conv_state
    state = layout(
        "recurrent", (n_embd_r if keeps else 0 for keeps in kept), (n_embd_s if keeps else 0 for keeps in kept)
    )
    if history == 0:
        return (state,)
    ple = (history * (keeps and is_ple) for keeps, is_ple in zip(kept, hp.is_ple, strict=True))
    return (state, layout("ple", ple, (0,) * hp.n_layer_all))


def attending(hp: Hparams) -> LayerFilter:
    """Layers of a hybrid model that own a KV cache.

    Source: filter_attn, src/llama-model.cpp:2682-2712; llama_memory_hybrid, src/llama-memory-hybrid.cpp:46-48
    (llama.cpp in llama-cpp-python 0.3.36).
    """
    rule = hp.arch.state
    if rule is None or rule.keeps_attention:
        return lambda _: True
    if rule.layers == "no_kv_heads_no_ff":
        return lambda il: not hp.is_recr[il] and hp.n_ff[il] == 0
    if rule.layers == "interval":
        return lambda il: il < hp.n_layer and not hp.is_recr[il]
    return lambda il: not hp.is_recr[il]


def recurring(hp: Hparams) -> LayerFilter:
    """Layers of a hybrid or recurrent model that own a recurrent state.

    Source: filter_recr, src/llama-model.cpp:2682-2712 (llama.cpp in llama-cpp-python 0.3.36).
    """
    return lambda il: hp.is_recr[il]
