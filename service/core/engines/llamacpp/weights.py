"""Bytes of weights on every device, from sums that are made once per model."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

from service.core.architectures.hparams import Hparams
from service.core.engines.llamacpp.buckets import INPUT, LoadedTensor, SharedTensor, buckets
from service.core.engines.llamacpp.buffer_types import buffer_rules
from service.core.engines.llamacpp.op_support import supports_weight
from service.core.engines.llamacpp.overrides import Override, OverrideTable
from service.core.engines.llamacpp.slots import CPU, SlotMap
from service.core.types import Backend, Model, Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Weights of one device or of the host.

    weights_bytes: allocated, padding included. expert_bytes: those of routed experts among them, unpadded, of which a
    token reads its share. lookup_bytes: those of tables of which a token reads single rows.
    """

    weights_bytes: int = 0
    expert_bytes: int = 0
    lookup_bytes: int = 0

    def __add__(self, other: "Weights") -> "Weights":
        return Weights(
            weights_bytes=self.weights_bytes + other.weights_bytes,
            expert_bytes=self.expert_bytes + other.expert_bytes,
            lookup_bytes=self.lookup_bytes + other.lookup_bytes,
        )

    def __sub__(self, other: "Weights") -> "Weights":
        return Weights(
            weights_bytes=self.weights_bytes - other.weights_bytes,
            expert_bytes=self.expert_bytes - other.expert_bytes,
            lookup_bytes=self.lookup_bytes - other.lookup_bytes,
        )


NO_WEIGHTS = Weights()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WeightLayout:
    """Weights of one model under one set of overrides.

    by_slot: tensors of slots 0..La, the last being the output layer; inputs: those of the input layer; shared: those
    that several slots ask for. overridden: tensors that an override sends to a device, or to the host (CPU);
    `locations` says the same by name. joined: where this is two others in one, that of the slots before a number, that
    of the others, and the number.
    """

    hp: Hparams
    by_slot: tuple[tuple[LoadedTensor, ...], ...]
    inputs: tuple[LoadedTensor, ...]
    shared: tuple[SharedTensor, ...]
    overridden: Mapping[int, tuple[LoadedTensor, ...]]
    locations: Mapping[str, int]
    joined: "tuple[WeightLayout, WeightLayout, int] | None" = None


@lru_cache(maxsize=512)
def weight_layout(
    model: Model,
    hp: Hparams,
    overrides: tuple[Override, ...] = (),
    n_cpu_moe: int = 0,
    *,
    load_mtp: bool = False,
) -> WeightLayout:
    """Weights of `model` by the slot or override that places them; memoised.

    Raises as `buckets` does.
    Source: src/llama-model-loader.cpp:1116-1390 (llama.cpp in llama-cpp-python 0.3.36).
    """
    if 0 < n_cpu_moe < hp.n_layer_all:
        moved = weight_layout(model, hp, overrides, hp.n_layer_all, load_mtp=load_mtp)
        return _joined(moved, weight_layout(model, hp, overrides, load_mtp=load_mtp), n_cpu_moe)
    sorted_tensors = buckets(model, hp, load_mtp=load_mtp)
    by_slot: list[list[LoadedTensor]] = [[] for _ in range(hp.n_layer_all + 1)]
    inputs: list[LoadedTensor] = []
    overridden: dict[int, list[LoadedTensor]] = {}
    locations: dict[str, int] = {}
    table = OverrideTable(overrides, n_cpu_moe) if overrides or n_cpu_moe else None
    for loaded in sorted_tensors.loaded:
        target = table.target(loaded.tensor.name) if table else None
        if target is not None:
            overridden.setdefault(target, []).append(loaded)
            locations[loaded.tensor.name] = target
        elif loaded.slot == INPUT:
            inputs.append(loaded)
        else:
            by_slot[loaded.slot].append(loaded)
    for shared in sorted_tensors.shared:
        target = table.target(shared.tensor.name) if table else None
        if target is not None:
            locations[shared.tensor.name] = target
    return WeightLayout(
        hp=hp,
        by_slot=tuple(map(tuple, by_slot)),
        inputs=tuple(inputs),
        shared=sorted_tensors.shared,
        overridden=MappingProxyType({target: tuple(tensors) for target, tensors in overridden.items()}),
        locations=MappingProxyType(locations),
    )


def _joined(front: WeightLayout, back: WeightLayout, end: int) -> WeightLayout:
    """Slots before `end` as in `front`, which overrides more tensors, and the others as in `back`."""
    more = [
        loaded
        for loaded in front.overridden.get(CPU, ())
        if loaded.slot < end and loaded.tensor.name not in back.locations
    ]
    return WeightLayout(
        hp=back.hp,
        by_slot=(*front.by_slot[:end], *back.by_slot[end:]),
        inputs=back.inputs,
        shared=back.shared,
        overridden=MappingProxyType({**back.overridden, CPU: (*back.overridden.get(CPU, ()), *more)}),
        locations=MappingProxyType({**back.locations, **{loaded.tensor.name: CPU for loaded in more}}),
        joined=(front, back, end),
    )


def allocated_bytes(tensor: Tensor, backend: Backend) -> int:
    """Bytes of a weight in a buffer of `backend`."""
    return buffer_rules(backend).allocated_bytes(tensor.type, tensor.shape[0], tensor.size_bytes)


def weights_of(tensors: Iterable[LoadedTensor], backend: Backend) -> Weights:
    """Sum of `tensors` in memory of `backend`."""
    weights_bytes = expert_bytes = lookup_bytes = 0
    for loaded in tensors:
        weights_bytes += allocated_bytes(loaded.tensor, backend)
        if loaded.kind.is_routed_expert:
            expert_bytes += loaded.tensor.size_bytes
        elif loaded.op == "get_rows":
            lookup_bytes += loaded.tensor.size_bytes
    return Weights(weights_bytes=weights_bytes, expert_bytes=expert_bytes, lookup_bytes=lookup_bytes)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SlotSums:
    """Running sums over slots for one backend: entry s sums the slots before s.

    held: what a device of the backend holds; refused: what it cannot compute with and leaves to the host, None where
    that is nothing.
    """

    held: tuple[Weights, ...]
    refused: tuple[Weights, ...] | None


@lru_cache(maxsize=1024)
def slot_sums(layout: WeightLayout, backend: Backend) -> SlotSums:
    """Running sums of `layout` for `backend`; memoised, so that the bytes of a range of slots cost two look-ups."""
    if layout.joined is not None:
        front, back, end = layout.joined
        return _joined_sums(slot_sums(front, backend), slot_sums(back, backend), end)
    held, refused = [NO_WEIGHTS], [NO_WEIGHTS]
    for tensors in layout.by_slot:
        supported = [loaded for loaded in tensors if supports_weight(backend, loaded.op, loaded.tensor, layout.hp)]
        left = [loaded for loaded in tensors if loaded not in supported] if len(supported) < len(tensors) else []
        held.append(held[-1] + weights_of(supported, backend))
        refused.append(refused[-1] + weights_of(left, "cpu"))
    return SlotSums(held=tuple(held), refused=tuple(refused) if refused[-1].weights_bytes else None)


def _joined_sums(front: SlotSums, back: SlotSums, end: int) -> SlotSums:
    more = front.held[end] - back.held[end]
    refused = None
    if front.refused or back.refused:
        none = (NO_WEIGHTS,) * len(back.held)
        before, behind = front.refused or none, back.refused or none
        also = before[end] - behind[end]
        refused = (*before[:end], *[also + each for each in behind[end:]])
    return SlotSums(held=(*front.held[:end], *[more + each for each in back.held[end:]]), refused=refused)


@lru_cache(maxsize=1024)
def refused_names(layout: WeightLayout, backend: Backend) -> Mapping[int, tuple[str, ...]]:
    """Names of the weights that a device of `backend` leaves to the host, by slot; slots without any are left out."""
    refused: dict[int, tuple[str, ...]] = {}
    for slot, tensors in enumerate(layout.by_slot):
        names = tuple(
            loaded.tensor.name
            for loaded in tensors
            if not supports_weight(backend, loaded.op, loaded.tensor, layout.hp)
        )
        if names:
            refused[slot] = names
    return MappingProxyType(refused)


def locations(layout: WeightLayout, slots: SlotMap, backends: Sequence[Backend]) -> Mapping[str, int]:
    """Where weights lie that are not with their slot, by name: overridden, or on the host because of their backend."""
    refused = {
        name: CPU
        for run in slots.runs
        if run.device != CPU
        for slot, names in refused_names(layout, backends[run.device]).items()
        if run.first <= slot < run.end
        for name in names
    }
    return {**refused, **layout.locations} if refused else layout.locations


@lru_cache(maxsize=1024)
def pinned_weights(layout: WeightLayout, target: int, backend: Backend) -> Weights:
    """Weights that overrides send to one target, whatever the slots."""
    return weights_of(layout.overridden.get(target, ()), backend)


@lru_cache(maxsize=1024)
def input_weights(layout: WeightLayout) -> Weights:
    """Weights of the input layer, which stay on the host."""
    return weights_of(layout.inputs, "cpu")


def copies(shared: SharedTensor, layout: WeightLayout, slots: SlotMap, supported: Sequence[bool]) -> list[int]:
    """Device of every copy of a shared tensor, CPU for the host; `supported`: whether each device computes with it."""
    override = layout.locations.get(shared.tensor.name)
    targets: list[int] = []
    for device in _asking_devices(shared, slots):
        target = device if device == CPU or supported[device] else CPU
        if override is not None:
            target = override
        if shared.copied_within_buffer or target not in targets:
            targets.append(target)
    return targets


def _asking_devices(shared: SharedTensor, slots: SlotMap) -> list[int]:
    """Devices whose slots ask for a shared tensor, in slot order: once per run, once per slot where all count."""
    if shared.copied_within_buffer:
        return [CPU if slot == INPUT else slots.device_of(slot) for slot in shared.slots]
    devices = [CPU] if shared.slots and shared.slots[0] == INPUT else []
    for run in slots.runs:
        following = bisect_left(shared.slots, run.first)
        if following < len(shared.slots) and shared.slots[following] < run.end:
            devices.append(run.device)
    return devices


def host_copy(shared: SharedTensor, targets: Sequence[int]) -> Weights:
    """One copy on the host; an embedding there is a look-up table where the output layer lies elsewhere."""
    is_table = shared.op == "mul_mat" and any(target != CPU for target in targets)
    return Weights(
        weights_bytes=allocated_bytes(shared.tensor, "cpu"),
        lookup_bytes=shared.tensor.size_bytes if is_table else 0,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedWeights:
    """Weights of every device, in device order, and of the host."""

    devices: tuple[Weights, ...]
    host: Weights


@lru_cache(maxsize=4096)
def place_weights(layout: WeightLayout, slots: SlotMap, backends: tuple[Backend, ...]) -> PlacedWeights:
    """Weights of every device and of the host, at a cost that does not depend on the number of layers; memoised.

    Source: src/llama-model.cpp:1543-1614 and src/llama-model-loader.cpp:1116-1390
    (llama.cpp in llama-cpp-python 0.3.36); ggml/src/ggml-alloc.c:1168-1229 (sizes of buffers).
    """
    devices = [NO_WEIGHTS] * len(backends)
    host = input_weights(layout)
    for run in slots.runs:
        sums = slot_sums(layout, "cpu" if run.device == CPU else backends[run.device])
        held = sums.held[run.end] - sums.held[run.first]
        if run.device == CPU:
            host += held
            continue
        devices[run.device] = held
        if sums.refused is not None:
            host += sums.refused[run.end] - sums.refused[run.first]
    for target in layout.overridden:
        if target == CPU:
            host += pinned_weights(layout, CPU, "cpu")
        else:
            devices[target] += pinned_weights(layout, target, backends[target])
    for shared in layout.shared:
        supported = [supports_weight(backend, shared.op, shared.tensor, layout.hp) for backend in backends]
        targets = copies(shared, layout, slots, supported)
        for target in targets:
            if target == CPU:
                host += host_copy(shared, targets)
            else:
                devices[target] += Weights(weights_bytes=allocated_bytes(shared.tensor, backends[target]))
    return PlacedWeights(devices=tuple(devices), host=host)
