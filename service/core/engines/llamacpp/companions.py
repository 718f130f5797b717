"""What runs beside a model: a draft model, the model's own draft layers, a projector for images or sound."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from service.core.engines.llamacpp.buffer_types import buffer_rules
from service.core.engines.llamacpp.devices import Device, engine_devices
from service.core.engines.llamacpp.placement import Placement, place
from service.core.engines.llamacpp.placement_inputs import ModelUse, placement_inputs
from service.core.engines.llamacpp.settings import LlamaCppSettings
from service.core.engines.llamacpp.slots import CPU
from service.core.engines.llamacpp.weights import allocated_bytes
from service.core.types import Model, Rig, Workload

DEFAULT_DRAFT_TOKENS: Final = 3
"""Tokens a draft proposes per step unless told otherwise (--spec-draft-n-max, common/common.h)."""

AS_THE_TARGET: Final = LlamaCppSettings()
"""Settings of a draft that says nothing of its own."""

_READS_HIDDEN_STATES: Final = frozenset({"eagle3", "dflash"})
"""Draft architectures that work on the target's hidden states, so that the target keeps snapshots of its state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """Speculation: a draft model, or the model's own draft (MTP) layers where `model` is None.

    n_max: tokens proposed per step. settings: of the draft model, where they are its own: layers on the cards and types
    of its cache.
    """

    model: Model | None = None
    n_max: int = DEFAULT_DRAFT_TOKENS
    settings: LlamaCppSettings = AS_THE_TARGET


@dataclass(frozen=True, slots=True, kw_only=True)
class Companions:
    """What runs beside the model; projector_on_host is --no-mmproj-offload."""

    draft: Draft | None = None
    projector: Model | None = None
    projector_on_host: bool = False


def place_with(
    model: Model,
    rig: Rig,
    settings: LlamaCppSettings,
    workload: Workload,
    companions: Companions,
    *,
    may_pipeline: bool = True,
) -> Placement:
    """Place `model` and what runs beside it, whose bytes are each device's and the host's companion_bytes.

    Raises as `place` does, for the draft as well.
    Source: common/common.cpp:1180-1230 and 1620-1640, common/speculative.cpp, tools/mtmd/clip.cpp:160-225
    (llama.cpp in llama-cpp-python 0.3.36).
    """
    use = _target_use(companions.draft)
    placement = place(model, rig, settings, workload, may_pipeline=may_pipeline, use=use)
    added: list[dict[int, int]] = []
    if companions.draft is not None and companions.draft.model is not None:
        added.append(_draft_bytes(companions.draft, companions.draft.model, rig, settings, workload, placement))
    elif companions.draft is not None:
        added.append(_mtp_bytes(model, rig, settings, workload, placement))
    if companions.projector is not None:
        added.append(_projector_bytes(companions.projector, rig, on_host=companions.projector_on_host))
    return _with_companions(placement, added)


def _target_use(draft: Draft | None) -> ModelUse:
    """What the target must do for its draft: more logits rows, snapshots of its state, its own draft layers."""
    if draft is None:
        return ModelUse()
    own = draft.model is None
    reads = own or (draft.model is not None and draft.model.architecture in _READS_HIDDEN_STATES)
    return ModelUse(n_draft=draft.n_max, keeps_snapshots=reads, load_mtp=own)


def _draft_bytes(
    draft: Draft, model: Model, rig: Rig, settings: LlamaCppSettings, workload: Workload, target: Placement
) -> dict[int, int]:
    """A draft model with the target's context, split by what the target left free where no shares are given."""
    own = replace(
        settings,
        n_gpu_layers="all" if draft.settings.n_gpu_layers is None else draft.settings.n_gpu_layers,
        cache_type_k=draft.settings.cache_type_k,
        cache_type_v=draft.settings.cache_type_v,
        n_cpu_moe=draft.settings.n_cpu_moe,
        override_tensor=draft.settings.override_tensor,
    )
    left = tuple(
        replace(gpu, usable_bytes=max(gpu.usable_bytes - device.total_bytes, 1))
        for gpu, device in zip(rig.gpus, target.devices, strict=True)
    )
    placed = place(
        model,
        replace(rig, gpus=left),
        own,
        replace(workload, context_tokens=target.ctx.n_ctx),
        use=ModelUse(role="draft", n_draft=draft.n_max),
    )
    return {CPU: placed.host.total_bytes} | {
        position: device.total_bytes for position, device in enumerate(placed.devices)
    }


def _mtp_bytes(
    model: Model, rig: Rig, settings: LlamaCppSettings, workload: Workload, target: Placement
) -> dict[int, int]:
    """The second context on the same model: caches of its draft layers, and scratch.

    The graph of one draft block is taken to need what the target's own graph needs on the card of the output layer.
    """
    inputs = placement_inputs(model, rig, settings, workload, ModelUse(role="mtp", load_mtp=True))
    added = {CPU: target.host.compute_bytes}
    for position, device in enumerate(target.devices):
        first, end = (min(slot, inputs.layer_end) for slot in (device.first_slot, device.end_slot))
        on_card = inputs.index.bytes_between(first, end, device.backend) if settings.kv_offload else 0
        added[position] = on_card + (device.compute_bytes if device.holds_output else 0)
    host_end = inputs.layer_end if not settings.kv_offload else min(target.slots.range_of(CPU)[1], inputs.layer_end)
    added[CPU] += inputs.index.bytes_between(0, host_end, "cpu")
    return added


def _projector_bytes(projector: Model, rig: Rig, *, on_host: bool) -> dict[int, int]:
    """Weights of a projector on one device; its scratch depends on the images and is not counted.

    Source: tools/mtmd/clip.cpp:160-225 (llama.cpp in llama-cpp-python 0.3.36).
    """
    card = None if on_host else projector_card(engine_devices(rig))
    backend = "cpu" if card is None else card.backend
    size_bytes = sum(allocated_bytes(tensor, backend) for tensor in projector.tensors)
    return {CPU if card is None else card.position: size_bytes}


def projector_card(cards: Sequence[Device]) -> Device | None:
    """The card a projector goes to: the first discrete one as backends register, servers last; else integrated."""
    registered = sorted(cards, key=lambda card: (card.is_integrated, card.backend == "rpc", _rank(card)))
    return registered[0] if registered else None


def _rank(card: Device) -> int:
    return buffer_rules(card.backend).registry_rank


def _with_companions(placement: Placement, added: Sequence[dict[int, int]]) -> Placement:
    if not added:
        return placement
    devices = tuple(
        replace(device, companion_bytes=sum(each.get(position, 0) for each in added))
        for position, device in enumerate(placement.devices)
    )
    host = replace(placement.host, companion_bytes=sum(each.get(CPU, 0) for each in added))
    return replace(placement, devices=devices, host=host)
