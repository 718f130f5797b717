"""Where llama.cpp puts every byte of a model: `place` puts slots, weights, caches and compute buffers together."""

from dataclasses import replace
from typing import Final

from service.core.engines.llamacpp.compute import (
    ComputeBuffers,
    ComputeQuestion,
    buffers_at_length,
    cells_of,
    may_be_symbolic,
    reserve_for_all_lengths,
)
from service.core.engines.llamacpp.context import ContextNumbers
from service.core.engines.llamacpp.kv_cache import KvIndex
from service.core.engines.llamacpp.loaded import LoadedModel
from service.core.engines.llamacpp.placed import DevicePlacement, HostPlacement, Placement
from service.core.engines.llamacpp.placement_inputs import MAIN_MODEL, ModelUse, placement_inputs
from service.core.engines.llamacpp.settings import LlamaCppSettings
from service.core.engines.llamacpp.tensor_split import reduction_bytes
from service.core.types import Model, Rig, Workload

__all__ = ["DevicePlacement", "HostPlacement", "Placement", "place", "unpipelined"]

SCHED_COPIES: Final = 4
"""Copies of every graph input under pipeline parallelism (GGML_SCHED_MAX_COPIES, ggml/CMakeLists.txt)."""


def place(
    model: Model,
    rig: Rig,
    settings: LlamaCppSettings,
    workload: Workload,
    *,
    may_pipeline: bool = True,
    use: ModelUse = MAIN_MODEL,
    fit_view: bool = False,
    with_compute: bool = True,
) -> Placement:
    """Place `model` on `rig` with everything as `settings` and `workload` say; what they leave open is llama.cpp's.

    No split mode means by layer, no n_gpu_layers means all, no context means the trained one. `may_pipeline` False is
    what llama.cpp falls back to where the compute buffers of a pipeline do not fit (llama-context.cpp:676-687); `use`
    says what the model is loaded for. fit_view: compute buffers as llama.cpp's own fit measures them; with_compute
    False leaves them out, for a lower bound that needs no graph. Raises the problems of refusals.py, of the context and
    of the model. The cost does not depend on the number of layers once the sums of a model are made.
    Source: src/llama-model.cpp:1500-1960, src/llama-context.cpp:91-768 (llama.cpp in llama-cpp-python 0.3.36).
    """
    plan = placement_inputs(model, rig, settings, workload, use)
    loaded = plan.loaded
    pipelined = may_pipeline and loaded.pipelines
    compute = _no_compute(loaded)
    if with_compute:
        compute = _compute(loaded, plan.ctx, plan.index, pipelined=pipelined, fit_view=fit_view)
    kv_bytes, compute_bytes = plan.caches.devices, compute.device_bytes
    reduced = reduction_bytes(loaded.hp, plan.ctx, len(loaded.used)) if loaded.joint else 0
    return Placement(
        devices=tuple(
            [
                DevicePlacement(*held, 0, 0)
                if index is None
                else DevicePlacement(*held, kv_bytes[index], compute_bytes[index], reduced)
                for held, index in zip(loaded.held, loaded.counted_as, strict=True)
            ]
        ),
        host=HostPlacement(weights=loaded.weights.host, kv_bytes=plan.caches.host, compute_bytes=compute.host_bytes),
        ctx=plan.ctx,
        caches=plan.index,
        slots=loaded.slots_by_position,
        split_mode=loaded.split_mode,
        device_order=loaded.order,
        pipeline_parallel=pipelined,
        sched_copies=SCHED_COPIES if pipelined else 1,
        loaded=loaded,
    )


def unpipelined(placement: Placement) -> ComputeBuffers:
    """The compute buffers of a placement without a pipeline, by used card."""
    return _compute(placement.loaded, placement.ctx, placement.caches, pipelined=False)


def _compute(
    loaded: LoadedModel, ctx: ContextNumbers, index: KvIndex, *, pipelined: bool, fit_view: bool = False
) -> ComputeBuffers:  # fmt: skip
    """Scratch memory; a joint device is computed as one and each of its cards gets the whole of it.

    Source: ggml/src/ggml-backend-meta.cpp:1693-1716 (llama.cpp in llama-cpp-python 0.3.36).
    """
    cells = cells_of(index)
    found = None
    if may_be_symbolic(loaded.hp, cells):
        key = (ctx.shape, pipelined, fit_view)
        if key not in loaded.reserved:
            question = _compute_question(loaded, ctx, pipelined=pipelined, fit_view=fit_view)
            loaded.reserved[key] = reserve_for_all_lengths(question)
        reserved = loaded.reserved[key]
        found = None if reserved is None else reserved.buffers(cells)
    if found is None:
        found = buffers_at_length(_compute_question(loaded, ctx, pipelined=pipelined, fit_view=fit_view), cells)
    return replace(found, device_bytes=found.device_bytes * len(loaded.used)) if loaded.joint else found


def _compute_question(
    loaded: LoadedModel, ctx: ContextNumbers, *, pipelined: bool, fit_view: bool
) -> ComputeQuestion:  # fmt: skip
    return ComputeQuestion(
        model=loaded.model,
        hp=loaded.hp,
        ctx=ctx,
        slots=loaded.slots,
        backends=loaded.backends[:1] if loaded.joint else loaded.backends,
        tensor_location=loaded.locations,
        pipeline_copies=SCHED_COPIES if pipelined else 1,
        op_offload=not loaded.joint,
        fit_view=fit_view,
        rules=loaded.rules,
    )


def _no_compute(loaded: LoadedModel) -> ComputeBuffers:
    return ComputeBuffers(device_bytes=(0,) * len(loaded.used), host_bytes=0)
