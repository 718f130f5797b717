"""What a placement is made from: a model on its devices, a context, and the context's caches."""

from dataclasses import dataclass, replace
from typing import Final

from service.core.engines.llamacpp.context import ContextNumbers, ContextRole, resolve_context
from service.core.engines.llamacpp.kv_cache import KvIndex, kv_index
from service.core.engines.llamacpp.loaded import LoadedModel, load_model
from service.core.engines.llamacpp.settings import LlamaCppSettings
from service.core.types import Model, Rig, Workload


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
class PlacementInputs:
    """What the parts of a placement share."""

    loaded: LoadedModel
    ctx: ContextNumbers
    index: KvIndex


def placement_inputs(
    model: Model, rig: Rig, settings: LlamaCppSettings, workload: Workload, use: ModelUse = MAIN_MODEL
) -> PlacementInputs:
    """Everything a placement is made from, checked against what llama.cpp refuses.

    Source: src/llama.cpp:158-301, src/llama-context.cpp:91-322 (llama.cpp in llama-cpp-python 0.3.36).
    """
    loaded = load_model(model, rig, settings, load_mtp=use.load_mtp)
    ctx = resolve_context(
        loaded.hp,
        settings,
        loaded.hp.n_ctx_train if workload.context_tokens is None else workload.context_tokens,
        workload.parallel,
        loaded.rules,
        backends=loaded.holding,
        n_draft=use.n_draft,
        role=use.role,
    )
    if ctx.n_rs_seq and not use.keeps_snapshots:
        ctx = replace(ctx, n_rs_seq=0)
    return PlacementInputs(loaded=loaded, ctx=ctx, index=kv_index(loaded.hp, ctx))
