"""What a placement is made from: a model on its devices, a context, and the context's caches."""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from service.core.engines.llamacpp.context import ContextNumbers, ContextRole, resolve_context
from service.core.engines.llamacpp.kv_cache import KvIndex, kv_index
from service.core.engines.llamacpp.loaded import LoadedModel, load_model
from service.core.engines.llamacpp.settings import LlamaCppSettings
from service.core.engines.llamacpp.slots import CPU
from service.core.engines.llamacpp.tensor_split import split_caches
from service.core.types import Backend, Model, Rig, Workload

HOST_BACKEND: Final[Backend] = "cpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelUse:
    """What a model is loaded for.

    role: "target" for a main model, "mtp" for the context of its own draft layers, "draft" for a draft model.
    n_draft: tokens a draft proposes per step; keeps_snapshots: whether the target must be able to take recurrent state
    back, as drafts that read its hidden states need. load_mtp: whether its draft layers are loaded.
    """

    role: ContextRole = "target"
    n_draft: int = 0
    keeps_snapshots: bool = False
    load_mtp: bool = False


MAIN_MODEL: Final = ModelUse()
"""A model on its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheBytes:
    """Cache bytes of every used card and of the host."""

    devices: tuple[int, ...]
    host: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlacementInputs:
    """What the parts of a placement share; index: of the context's caches."""

    loaded: LoadedModel
    ctx: ContextNumbers
    index: KvIndex
    caches: CacheBytes


def placement_inputs(
    model: Model, rig: Rig, settings: LlamaCppSettings, workload: Workload, use: ModelUse = MAIN_MODEL
) -> PlacementInputs:
    """Everything a placement is made from, checked against what llama.cpp refuses.

    Source: src/llama.cpp:158-301, src/llama-context.cpp:91-322 (llama.cpp in llama-cpp-python 0.3.36).
    """
    loaded = load_model(model, rig, settings, load_mtp=use.load_mtp)
    return _with_context(loaded, workload.context_tokens, workload.parallel, use)


@lru_cache(maxsize=1024)
def _with_context(loaded: LoadedModel, context_tokens: int | None, parallel: int, use: ModelUse) -> PlacementInputs:
    """A loaded model with a context; memoised, since a candidate is first held and then computed."""
    ctx = resolve_context(
        loaded.hp,
        loaded.settings,
        loaded.hp.n_ctx_train if context_tokens is None else context_tokens,
        parallel,
        loaded.rules,
        backends=loaded.holding,
        n_draft=use.n_draft,
        role=use.role,
    )
    if ctx.n_rs_seq and not use.keeps_snapshots:
        ctx = replace(ctx, n_rs_seq=0)
    index = kv_index(loaded.hp, ctx)
    return PlacementInputs(loaded=loaded, ctx=ctx, index=index, caches=_caches(loaded, index))


def _caches(loaded: LoadedModel, index: KvIndex) -> CacheBytes:
    """Caches beside the layers they belong to, or all on the host (-nkvo)."""
    end = loaded.layer_end
    if not loaded.settings.kv_offload:
        return CacheBytes(devices=(0,) * len(loaded.used), host=index.bytes_between(0, end, HOST_BACKEND))
    host_end = min(loaded.slots.range_of(CPU)[1], end)
    on_host = index.bytes_between(0, host_end, HOST_BACKEND) if host_end else 0
    if loaded.joint:
        return CacheBytes(devices=split_caches(loaded.tensor_split, index, host_end, end), host=on_host)
    held = [0] * len(loaded.used)
    for device, backend, first, last in loaded.blocks:
        held[device] = index.bytes_between(first, last, backend)
    return CacheBytes(devices=tuple(held), host=on_host)
