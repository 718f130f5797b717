"""Where the bytes of what runs beside a model go."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from service.core.architectures.hparams import Hparams, read_hparams
from service.core.engines.llamacpp.buffer_types import buffer_rules
from service.core.engines.llamacpp.companions import ALONE, Companions, Draft, Projector, check_companions
from service.core.engines.llamacpp.devices import Device, engine_devices, listed_devices
from service.core.engines.llamacpp.drafts import FIELD
from service.core.engines.llamacpp.needs import overhead_bytes
from service.core.engines.llamacpp.placed import CompanionBytes, CompanionPlacement
from service.core.engines.llamacpp.placement import Placement, place
from service.core.engines.llamacpp.placement_inputs import MAIN_MODEL, ModelUse
from service.core.engines.llamacpp.runtime_pool import runtime_pool_bytes
from service.core.engines.llamacpp.settings import LlamaCppSettings
from service.core.engines.llamacpp.weights import NO_WEIGHTS, Weights, allocated_bytes
from service.core.problems import concerning
from service.core.types import Model, Rig, Workload


def place_with(
    model: Model,
    rig: Rig,
    settings: LlamaCppSettings,
    workload: Workload,
    companions: Companions,
    *,
    may_pipeline: bool = True,
    with_compute: bool = True,
) -> Placement:
    """Place `model` and what runs beside it, whose bytes are each device's and the host's companion_bytes.

    may_pipeline, with_compute: as in `place`; without compute buffers a draft model, which is split by what these
    leave, is left out, so that what is found is a lower bound. Raises as `place` does, for the draft as well.
    Source: common/common.cpp:1180-1230 and 1620-1640, common/speculative.cpp, tools/mtmd/clip.cpp:160-225
    (llama.cpp in llama-cpp-python 0.3.36).
    """
    if companions == ALONE:
        return place(model, rig, settings, workload, may_pipeline=may_pipeline, with_compute=with_compute)
    check_companions(companions, settings)
    use = _target_use(companions)
    placement = place(model, rig, settings, workload, may_pipeline=may_pipeline, use=use, with_compute=with_compute)
    beside: list[CompanionPlacement] = []
    if companions.draft is not None and (with_compute or companions.draft.model is None):
        with concerning(FIELD):
            draft = _place_draft(companions.draft, model, rig, settings, workload, placement, with_compute=with_compute)
            beside.append(draft)
    if companions.projector is not None:
        beside.append(_place_projector(companions.projector, rig, settings))
    return _with_companions(placement, beside)


def _target_use(companions: Companions) -> ModelUse:
    """What the target must do for its draft: more logits rows, snapshots of its state, its own draft layers.

    Source: need_n_rs_seq, common/common.h:396-402 (llama.cpp in llama-cpp-python 0.3.36).
    """
    draft = companions.draft
    if draft is None:
        return MAIN_MODEL
    return ModelUse(
        n_draft=draft.n_max, keeps_snapshots=draft.spec_type != "draft-simple", load_mtp=companions.load_mtp
    )


def _place_draft(
    draft: Draft,
    model: Model,
    rig: Rig,
    settings: LlamaCppSettings,
    workload: Workload,
    target: Placement,
    *,
    with_compute: bool,
) -> CompanionPlacement:
    """The context that drafts: as long as the target's, of a draft model or of the target's own layers."""
    own = replace(settings, cache_type_k=draft.settings.cache_type_k, cache_type_v=draft.settings.cache_type_v)
    workload = replace(workload, context_tokens=target.ctx.n_ctx)
    is_mtp = draft.spec_type == "draft-mtp"
    use = ModelUse(role="mtp" if is_mtp else "draft", n_draft=draft.n_max, load_mtp=is_mtp)
    if draft.model is None:
        return _own_layers(model, place(model, rig, own, workload, use=use, with_compute=with_compute))
    own = replace(
        own,
        n_gpu_layers="all" if draft.settings.n_gpu_layers is None else draft.settings.n_gpu_layers,
        n_cpu_moe=draft.settings.n_cpu_moe,
        override_tensor=draft.settings.override_tensor,
    )
    placed = place(draft.model, _left(rig, model, target), own, workload, use=use)
    return _draft_model(draft.model, placed, _kept_states(draft.model, read_hparams(model), target))


def _left(rig: Rig, model: Model, target: Placement) -> Rig:
    """The cards as the target leaves them: a draft model without shares is split by that."""
    hp = read_hparams(model)
    left = tuple(
        replace(
            gpu,
            usable_bytes=max(
                gpu.usable_bytes - device.total_bytes - runtime_pool_bytes(model, hp, target.ctx, gpu.backend), 1
            ),
        )
        for gpu, device in zip(rig.gpus, target.devices, strict=True)
    )
    return replace(rig, gpus=left)


def _own_layers(model: Model, placed: Placement) -> CompanionPlacement:
    """A second context on the same weights: caches of the draft layers, scratch, and the backend's pool once more."""
    hp = read_hparams(model)
    devices = tuple(
        CompanionBytes(
            kv_bytes=device.kv_bytes,
            compute_bytes=device.compute_bytes,
            overhead_bytes=runtime_pool_bytes(model, hp, placed.ctx, device.backend) if device.compute_bytes else 0,
        )
        for device in placed.devices
    )
    host = CompanionBytes(kv_bytes=placed.host.kv_bytes, compute_bytes=placed.host.compute_bytes)
    return CompanionPlacement(kind="draft", devices=devices, host=host, placement=placed)


def _draft_model(model: Model, placed: Placement, kept_bytes: Sequence[int]) -> CompanionPlacement:
    """A model of its own, and what its target keeps for it on the cards and, last, on the host."""
    hp = read_hparams(model)
    devices = tuple(
        CompanionBytes(
            weights=device.weights,
            kv_bytes=device.kv_bytes,
            compute_bytes=device.compute_bytes + kept,
            overhead_bytes=overhead_bytes(model, hp, placed, device),
        )
        for device, kept in zip(placed.devices, kept_bytes, strict=False)
    )
    host = CompanionBytes(
        weights=placed.host.weights,
        kv_bytes=placed.host.kv_bytes,
        compute_bytes=placed.host.compute_bytes + kept_bytes[-1],
    )
    return CompanionPlacement(kind="draft", devices=devices, host=host, placement=placed)


def _kept_states(draft: Model, hp: Hparams, target: Placement) -> list[int]:
    """Bytes of hidden states of the target, whose shape is `hp`, that its graph keeps for the draft.

    By card, the host's last.

    The input of block i is the output of block i - 1, a float per value and token, and lies where that ran.
    Source: target_layer_ids, src/models/eagle3.cpp, dflash.cpp; set_outputs, src/llama-graph.cpp:1380-1388
    (llama.cpp in llama-cpp-python 0.3.36).
    """
    kept = [0] * (len(target.devices) + 1)
    layers = draft.metadata.get(f"{draft.architecture}.target_layers")
    for layer in layers if isinstance(layers, tuple) else ():
        if isinstance(layer, int) and 0 <= layer <= hp.n_layer:
            kept[target.slots.device_of(layer - 1) if layer else -1] += 4 * hp.n_embd * target.ctx.n_tokens
    return kept


def _place_projector(projector: Projector, rig: Rig, settings: LlamaCppSettings) -> CompanionPlacement:
    """Weights of a projector on one device; its scratch depends on the images and is not counted.

    Source: tools/mtmd/clip.cpp:160-225; the first of -dev where that is given, common/arg.cpp:890
    (llama.cpp in llama-cpp-python 0.3.36).
    """
    cards = engine_devices(rig)
    if settings.devices is not None:
        cards = listed_devices(cards, settings.devices[:1])
    card = None if projector.on_host else projector_card(cards)
    backend = "cpu" if card is None else card.backend
    tensors = projector.model.tensors if projector.model else ()
    size_bytes = projector.weights_bytes + sum(allocated_bytes(tensor, backend) for tensor in tensors)
    held = CompanionBytes(weights=Weights(weights_bytes=size_bytes))
    empty = CompanionBytes(weights=NO_WEIGHTS)
    position = None if card is None else card.position
    devices = tuple(held if index == position else empty for index in range(len(rig.gpus)))
    return CompanionPlacement(kind="mmproj", devices=devices, host=held if card is None else empty)


def projector_card(cards: Sequence[Device]) -> Device | None:
    """The card a projector goes to: the first discrete one as backends register, servers last; else integrated."""
    registered = sorted(cards, key=lambda card: (card.is_integrated, card.backend == "rpc", _rank(card)))
    return registered[0] if registered else None


def _rank(card: Device) -> int:
    return buffer_rules(card.backend).registry_rank


def _with_companions(placement: Placement, beside: Sequence[CompanionPlacement]) -> Placement:
    if not beside:
        return placement

    def total(parts: Iterator[CompanionBytes]) -> int:
        return sum(part.total_bytes for part in parts)

    devices = tuple(
        device._replace(companion_bytes=total(each.devices[position] for each in beside))
        for position, device in enumerate(placement.devices)
    )
    host = replace(placement.host, companion_bytes=total(each.host for each in beside))
    return replace(placement, devices=devices, host=host, companions=tuple(beside))


def without_companions(placement: Placement) -> Placement:
    """What the model itself takes, which is loaded before anything beside it."""
    devices = tuple(device._replace(companion_bytes=0) for device in placement.devices)
    host = replace(placement.host, companion_bytes=0)
    return replace(placement, devices=devices, host=host, companions=())
