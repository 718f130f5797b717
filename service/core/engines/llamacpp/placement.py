"""Where llama.cpp puts every byte of a model: `place` puts slots, weights, caches and compute buffers together."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from service.core.engines.llamacpp.buffer_types import buffer_rules
from service.core.engines.llamacpp.compute import ComputeBuffers, ComputeQuestion, compute_buffers
from service.core.engines.llamacpp.devices import Device
from service.core.engines.llamacpp.placed import DevicePlacement, HostPlacement, Placement
from service.core.engines.llamacpp.placement_inputs import MAIN_MODEL, ModelUse, PlacementInputs, placement_inputs
from service.core.engines.llamacpp.row_split import row_card, split_rows
from service.core.engines.llamacpp.settings import LlamaCppSettings
from service.core.engines.llamacpp.slots import CPU, SlotMap
from service.core.engines.llamacpp.tensor_split import (
    TensorSplit,
    reduction_bytes,
    split_caches,
    split_weights,
    tensor_split,
)
from service.core.engines.llamacpp.weights import (
    NO_WEIGHTS,
    PlacedWeights,
    Weights,
    locations,
    place_weights,
)
from service.core.types import Backend, Model, Rig, Workload

__all__ = ["DevicePlacement", "HostPlacement", "Placement", "place"]

SCHED_COPIES: Final = 4
"""Copies of every graph input under pipeline parallelism (GGML_SCHED_MAX_COPIES, ggml/CMakeLists.txt)."""

HOST_BACKEND: Final[Backend] = "cpu"


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
    pipelined = may_pipeline and _pipeline_parallel(plan)
    weights, caches = _weights(plan), _caches(plan)
    compute = _compute(plan, pipelined=pipelined, fit_view=fit_view) if with_compute else _no_compute(plan)
    order = tuple(device.position for device in plan.used)
    devices = {card.position: _unused(card) for card in plan.cards}
    for index, card in enumerate(plan.used):
        devices[card.position] = _device(plan, index, weights.devices[index], caches.devices[index], compute)
    return Placement(
        devices=tuple(devices[position] for position in range(len(plan.cards))),
        host=HostPlacement(weights=weights.host, kv_bytes=caches.host, compute_bytes=compute.host_bytes),
        ctx=plan.ctx,
        slots=_by_position(plan.slots, order),
        split_mode=plan.split_mode,
        device_order=order,
        pipeline_parallel=pipelined,
        sched_copies=SCHED_COPIES if pipelined else 1,
    )


def _pipeline_parallel(plan: PlacementInputs) -> bool:
    """Whether several batches are under way at once, with copies of every graph input on every device.

    Source: src/llama-context.cpp:430-462 (llama.cpp in llama-cpp-python 0.3.36).
    """
    return (
        len(plan.used) > 1
        and plan.slots.fully_offloaded
        and plan.split_mode == "layer"
        and plan.ctx.offload_kqv
        and not plan.settings.override_tensor
        and not plan.settings.n_cpu_moe
        and plan.rules.has("pipeline_parallel")
        and all(buffer_rules(device.backend).pipelines for device in plan.used)
    )


def _weights(plan: PlacementInputs) -> PlacedWeights:
    if plan.joint:
        return split_weights(_split(plan), plan.layout, plan.slots)
    if plan.split_mode == "row" and plan.used:
        return split_rows(plan.layout, plan.slots, tuple(row_card(device.gpu) for device in plan.used), plan.shares)
    return place_weights(plan.layout, plan.slots, plan.backends)


def _split(plan: PlacementInputs) -> TensorSplit:
    return tensor_split(plan.model, plan.hp, plan.backends, plan.shares)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Caches:
    """Cache bytes of every used card and of the host."""

    devices: tuple[int, ...]
    host: int


def _caches(plan: PlacementInputs) -> _Caches:
    """Caches beside the layers they belong to, or all on the host (-nkvo)."""
    bytes_between, end = plan.index.bytes_between, plan.layer_end
    if not plan.ctx.offload_kqv:
        return _Caches(devices=(0,) * len(plan.used), host=bytes_between(0, end, HOST_BACKEND))
    on_host = bytes_between(0, min(plan.slots.range_of(CPU)[1], end), HOST_BACKEND)
    if plan.joint:
        first = min(plan.slots.range_of(CPU)[1], end)
        return _Caches(devices=split_caches(_split(plan), plan.index, first, end), host=on_host)
    devices = []
    for index, device in enumerate(plan.used):
        first, last = plan.slots.range_of(index)
        devices.append(bytes_between(min(first, end), min(last, end), device.backend))
    return _Caches(devices=tuple(devices), host=on_host)


def _compute(plan: PlacementInputs, *, pipelined: bool, fit_view: bool) -> ComputeBuffers:
    """Scratch memory; a joint device is computed as one and each of its cards gets the whole of it.

    Source: ggml/src/ggml-backend-meta.cpp:1693-1716 (llama.cpp in llama-cpp-python 0.3.36).
    """
    found = compute_buffers(
        ComputeQuestion(
            model=plan.model,
            hp=plan.hp,
            ctx=plan.ctx,
            slots=plan.slots,
            backends=plan.backends[:1] if plan.joint else plan.backends,
            tensor_location=locations(plan.layout, plan.slots, plan.backends),
            pipeline_copies=SCHED_COPIES if pipelined else 1,
            op_offload=not plan.joint,
            fit_view=fit_view,
            rules=plan.rules,
        )
    )
    return replace(found, device_bytes=found.device_bytes * len(plan.used)) if plan.joint else found


def _no_compute(plan: PlacementInputs) -> ComputeBuffers:
    return ComputeBuffers(device_bytes=(0,) * len(plan.used), host_bytes=0)


def _device(
    plan: PlacementInputs, index: int, weights: Weights, kv_bytes: int, compute: ComputeBuffers
) -> DevicePlacement:
    card = plan.used[index]
    first, end = plan.slots.range_of(0 if plan.joint else index)
    layers_end = min(end, plan.layer_end)
    return DevicePlacement(
        name=card.name,
        backend=card.backend,
        used=True,
        first_slot=first,
        end_slot=end,
        layers=((first, layers_end),) if first < layers_end else (),
        holds_output=first < end == plan.slots.n_slots,
        weights=weights,
        kv_bytes=kv_bytes,
        compute_bytes=compute.device_bytes[index],
        reduction_bytes=reduction_bytes(plan.hp, plan.ctx, len(plan.used)) if plan.joint else 0,
    )


def _unused(card: Device) -> DevicePlacement:
    return DevicePlacement(
        name=card.name,
        backend=card.backend,
        used=False,
        first_slot=0,
        end_slot=0,
        layers=(),
        holds_output=False,
        weights=NO_WEIGHTS,
        kv_bytes=0,
        compute_bytes=0,
    )


def _by_position(slots: SlotMap, order: Sequence[int]) -> SlotMap:
    """The same slots with devices counted by their position in the rig."""
    if all(position == index for index, position in enumerate(order)):
        return slots
    runs = tuple(replace(run, device=order[run.device]) if run.device != CPU else run for run in slots.runs)
    return SlotMap(runs=runs, n_slots=slots.n_slots)
