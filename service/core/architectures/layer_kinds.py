"""Which layers are windowed, recurrent or own an indexer."""

from typing import TypedDict

from service.core.architectures.architecture import Architecture, StateRule
from service.core.architectures.metadata import MAX_LAYERS, Metadata, unreadable
from service.core.architectures.shape import Heads, Layers
from service.core.architectures.window import SlidingWindow, SwaType

LayerFlags = tuple[bool, ...]


class Windows(TypedDict):
    """The sliding window and its layers."""

    swa_type: SwaType
    n_swa: int
    is_swa: LayerFlags


def periodic(n_layers: int, n_trunk: int, period: int, *, dense_first: bool = False) -> LayerFlags:
    """Every trunk layer but one in `period` (the first or the last of each period); draft layers never.

    period 0 marks every trunk layer.

    Source: set_swa_pattern and set_recr_pattern, src/llama-hparams.cpp:8-38 (llama.cpp in llama-cpp-python 0.3.36).
    """
    excluded = 0 if dense_first else period - 1
    return tuple(il < n_trunk and (period == 0 or il % period != excluded) for il in range(n_layers))


def read_windows(
    meta: Metadata, arch: Architecture, layers: Layers, is_recr: LayerFlags, *, hyper_connected: bool
) -> Windows:
    """The window in tokens and the layers it holds for; none where the rule's condition fails.

    Source: load_arch_hparams in src/models/*.cpp; load_swa_pattern, src/llama-model.cpp:3434-3441
    (llama.cpp in llama-cpp-python 0.3.36).
    """
    rule, n_layers = arch.window, layers["n_layer_all"]
    dense = Windows(swa_type="none", n_swa=0, is_swa=(False,) * n_layers)
    if rule is None or not _applies(meta, rule, layers):
        return dense
    n_swa = rule.forced_tokens or meta.count("attention.sliding_window", rule.default_tokens)
    if rule.layers == "all" or (rule.all_if_hyper_connected and hyper_connected):
        is_swa = (True,) * n_layers
    elif rule.layers == "attention":
        is_swa = tuple(il < n_layers - layers["n_layer_nextn"] and not recr for il, recr in enumerate(is_recr))
    else:
        is_swa = _window_pattern(meta, rule, layers)
    if arch.memory == "attention" and not any(is_swa):
        raise unreadable(meta.key("attention.sliding_window_pattern"), "marks no layer although there is a window")
    return Windows(swa_type=rule.kind, n_swa=n_swa, is_swa=is_swa)


def _applies(meta: Metadata, rule: SlidingWindow, layers: Layers) -> bool:
    trunk = layers["n_layer_all"] - layers["n_layer_nextn"]
    if rule.only_trunk_layers is not None and trunk != rule.only_trunk_layers:
        return False
    stated = meta.count("attention.sliding_window", 0)
    if rule.condition == "positive":
        return stated > 0
    if rule.condition == "unless_zero":
        return stated > 0 or not meta.has("attention.sliding_window")
    return True


def _window_pattern(meta: Metadata, rule: SlidingWindow, layers: Layers) -> LayerFlags:
    n_layers, suffix = layers["n_layer_all"], "attention.sliding_window_pattern"
    flags = meta.array(suffix)
    if flags is not None:
        return tuple(il < len(flags) and flags[il] != 0 for il in range(n_layers))
    if rule.layers == "array":
        raise unreadable(meta.key(suffix), "is missing: it must say for each layer whether it is windowed")
    period = meta.count(suffix, rule.period)
    return periodic(n_layers, n_layers - layers["n_layer_nextn"], period, dense_first=rule.dense_first)


def read_recurrent(meta: Metadata, rule: StateRule | None, layers: Layers, heads: Heads) -> LayerFlags:
    """Layers that keep a recurrent state.

    Source: is_recr_impl in load_arch_hparams, src/models/*.cpp; src/llama-model.cpp:1389
    (llama.cpp in llama-cpp-python 0.3.36).
    """
    n_layers = layers["n_layer_all"]
    trunk = n_layers - layers["n_layer_nextn"]
    if rule is None:
        return (False,) * n_layers
    if rule.layers == "all":
        return (True,) * n_layers
    if rule.layers == "no_kv_heads":
        return tuple(il < trunk and n == 0 for il, n in enumerate(heads["n_head_kv"]))
    if rule.layers == "no_kv_heads_no_ff":
        pairs = zip(heads["n_head_kv"], heads["n_ff"], strict=True)
        return tuple(il < trunk and n == 0 and ff == 0 for il, (n, ff) in enumerate(pairs))
    if meta.has("attention.recurrent_layers"):
        return tuple(flag != 0 for flag in meta.per_layer("attention.recurrent_layers", n_layers))
    interval = meta.count("full_attention_interval", rule.default_interval)
    if interval == 0:
        raise unreadable(meta.key("full_attention_interval"), "is 0")
    return periodic(n_layers, trunk, interval)


def read_indexer_flags(meta: Metadata, arch: Architecture, layers: Layers, n_ctx_train: int) -> LayerFlags:
    """Layers whose indexer computes its own selection, rather than sharing the previous one's.

    Source: is_indexer_full_impl in src/models/glm-dsa.cpp:6-66, glm5-next.cpp, dots3note.cpp, hy-v4.cpp
    (llama.cpp in llama-cpp-python 0.3.36).
    """
    n_layers, suffix = layers["n_layer_all"], "attention.indexer.types"
    trunk = n_layers - layers["n_layer_nextn"]
    types = arch.indexer.types if arch.indexer is not None else "unread"
    flags: tuple[int, ...] = (0,) * trunk
    if types == "required":
        flags = meta.array(suffix) or ()
        if not flags:
            raise unreadable(meta.key(suffix), "is missing")
    elif types == "all" or (types == "glm_5_2" and n_ctx_train < GLM_5_2_N_CTX_TRAIN):
        flags = meta.per_layer(suffix, trunk, (1,) * trunk)
    elif types == "glm_5_2":
        flags = meta.per_layer(suffix, trunk, GLM_5_2_INDEXER_TYPES)
    elif types == "zeros":
        flags = meta.per_layer(suffix, trunk, flags)
    return tuple(il < len(flags) and flags[il] != 0 for il in range(n_layers))


def read_layers_with_kv(meta: Metadata, arch: Architecture, n_layers: int) -> int:
    """How many layers, from the first, own a cache; -1 where all do.

    Source: n_layer_kv_from_start in src/models/gemma3n.cpp and gemma4.cpp (llama.cpp in llama-cpp-python 0.3.36).
    """
    if arch.reads_shared_kv_layers:
        shared = meta.count("attention.shared_kv_layers", 0)
        if shared > n_layers - 2:
            raise unreadable(meta.key("attention.shared_kv_layers"), f"is {shared} of {n_layers} layers")
        return n_layers - shared
    return -1 if arch.kv_layers_from_start is None else arch.kv_layers_from_start


GLM_5_2_N_CTX_TRAIN = 1048576
# the first two layers and every fourth from the third on: src/models/glm-dsa.cpp:6-28
GLM_5_2_INDEXER_TYPES = (1, 1, *((1, 0, 0, 0) * 19), *((0,) * (MAX_LAYERS - 78)))
