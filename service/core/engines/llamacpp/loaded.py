"""A model on its devices, before there is a context: what does not change with the context's length."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final, TypeAlias

from service.core.architectures.hparams import Hparams, read_hparams
from service.core.engines.llamacpp.buffer_types import buffer_rules
from service.core.engines.llamacpp.compute import Reserved
from service.core.engines.llamacpp.devices import (
    Device,
    chosen_devices,
    engine_devices,
    listed_devices,
    usable_devices,
)
from service.core.engines.llamacpp.flag_history import check_spelled
from service.core.engines.llamacpp.held import HeldByDevice, blocks_of, by_position, held_by, unused
from service.core.engines.llamacpp.overrides import Override, resolve_overrides
from service.core.engines.llamacpp.refusals import (
    check_device_count,
    check_devices,
    check_overrides,
    check_split_mode,
    check_tensor_split,
)
from service.core.engines.llamacpp.row_split import row_card, split_rows
from service.core.engines.llamacpp.settings import LlamaCppSettings, SplitMode
from service.core.engines.llamacpp.slots import CPU, SlotMap, resolve_n_gpu_layers, split_slots
from service.core.engines.llamacpp.tensor_split import TensorSplit, split_weights, tensor_split
from service.core.engines.llamacpp.versions import VersionRules, version_rules
from service.core.engines.llamacpp.weights import (
    PlacedWeights,
    WeightLayout,
    locations,
    place_weights,
    weight_layout,
)
from service.core.types import Backend, Model, Rig

DEFAULT_SPLIT_MODE: Final[SplitMode] = "layer"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoadedModel:
    """A model's weights on a rig; devices are counted as in `used`, llama.cpp's own list.

    cards: all of the rig. slots: over `used`; where the cards work as one joint device, that is device 0. holding:
    backends that hold slots, in slot order. locations: weights that do not lie with their slot, by name. pipelines:
    whether the cards can work on several batches at once. settings: without shares and a number of layers, which the
    slots say. order: the used cards by their position in the rig; slots_by_position: slots over positions; held: what
    every card of the rig has of the model before there is a context; counted_as: each one's place in `used`, None where
    it is not used. blocks: of every used card that holds slots, as its place in `used`, backend, first and end. busy:
    cards that hold weights, by position. reserved: graphs made so far, by what they are for, None where one graph does
    not stand for all lengths. longest: the largest contexts that were looked for, by what they depend on.
    """

    model: Model
    hp: Hparams
    rig: Rig
    settings: LlamaCppSettings
    rules: VersionRules
    split_mode: SplitMode
    cards: tuple[Device, ...]
    used: tuple[Device, ...]
    backends: tuple[Backend, ...]
    holding: tuple[Backend, ...]
    shares: tuple[float, ...]
    slots: SlotMap
    layout: WeightLayout
    weights: PlacedWeights
    locations: Mapping[str, int]
    pipelines: bool
    order: tuple[int, ...]
    slots_by_position: SlotMap
    held: tuple[HeldByDevice, ...]
    counted_as: tuple[int | None, ...]
    blocks: tuple[tuple[int, Backend, int, int], ...]
    busy: tuple[int, ...] = field(init=False)
    reserved: dict[Hashable, Reserved | None] = field(default_factory=dict)
    longest: dict[Hashable, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        busy = tuple([card for card, held in enumerate(self.held) if held.weights.weights_bytes])
        object.__setattr__(self, "busy", busy)

    @property
    def joint(self) -> bool:
        """Whether the cards work as one device."""
        return self.split_mode == "tensor"

    @property
    def layer_end(self) -> int:
        """End of the blocks, where the output slot is."""
        return self.hp.n_layer_all

    @property
    def tensor_split(self) -> TensorSplit:
        """How a joint device is cut."""
        return tensor_split(self.model, self.hp, self.backends, self.shares)


@lru_cache(maxsize=4096)
def load_model(model: Model, rig: Rig, settings: LlamaCppSettings, *, load_mtp: bool = False) -> LoadedModel:
    """Put the weights of `model` where `settings` say, checked against what llama.cpp refuses; memoised.

    Whatever shares and numbers of layers lead to the same slots give the same object, with what it remembers.
    load_mtp: whether its draft layers are loaded as well.
    Source: src/llama.cpp:158-301, src/llama-model.cpp:1556-1614 (llama.cpp in llama-cpp-python 0.3.36).
    """
    hp = read_hparams(model)
    plain = settings.without_shares
    cards = _checked_cards(hp, rig, plain)
    check_tensor_split(settings, cards.usable)
    layout = _layout(model, rig, plain, load_mtp=load_mtp)
    shares = settings.tensor_split if settings.tensor_split and cards.split_mode != "none" else ()
    slots = _slots(hp, settings, cards.used, shares, joint=cards.split_mode == "tensor")
    cut = shares if cards.split_mode in ("row", "tensor") else ()
    return _loaded(model, rig, plain, layout, slots, cut)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Cards:
    """The cards of a rig under some settings; all, those llama.cpp would use, and those it uses."""

    rules: VersionRules
    split_mode: SplitMode
    every: "_Devices"
    usable: "_Devices"
    used: "_Devices"
    backends: tuple[Backend, ...]


@lru_cache(maxsize=1024)
def _checked_cards(hp: Hparams, rig: Rig, plain: LlamaCppSettings) -> _Cards:
    """The cards, checked; plain: settings without shares and without a number of layers."""
    rules = version_rules(plain.version, plain.date)
    split_mode = plain.split_mode or DEFAULT_SPLIT_MODE
    check_devices(plain, rules)
    check_spelled(plain, rules)
    every, usable, used, backends = _devices(rig, split_mode, plain.main_gpu, plain.devices)
    check_device_count(len(used), split_mode)
    check_split_mode(split_mode, used, hp.arch, rules)
    return _Cards(rules=rules, split_mode=split_mode, every=every, usable=usable, used=used, backends=backends)


@lru_cache(maxsize=1024)
def _layout(model: Model, rig: Rig, plain: LlamaCppSettings, *, load_mtp: bool) -> WeightLayout:
    """Weights by slot, and those that overrides send elsewhere."""
    hp = read_hparams(model)
    cards = _checked_cards(hp, rig, plain)
    overrides = _overrides(plain, cards.every, cards.used, cards.split_mode, cards.rules)
    return weight_layout(model, hp, overrides, plain.n_cpu_moe or 0, load_mtp=load_mtp)


@lru_cache(maxsize=4096)
def _loaded(
    model: Model, rig: Rig, plain: LlamaCppSettings, layout: WeightLayout, slots: SlotMap, shares: tuple[float, ...]
) -> LoadedModel:
    """A model in its slots; shares: those that rows or tensors are cut by, none where whole layers are divided."""
    hp = read_hparams(model)
    cards = _checked_cards(hp, rig, plain)
    backends, joint = cards.backends, cards.split_mode == "tensor"
    order = tuple([card.position for card in cards.used])
    counted_as = {position: index for index, position in enumerate(order)}
    if joint:
        weights = split_weights(tensor_split(model, hp, backends, shares), layout, slots)
    elif cards.split_mode == "row" and cards.used:
        weights = split_rows(layout, slots, tuple(row_card(device.gpu) for device in cards.used), shares)
    else:
        weights = place_weights(layout, slots, backends)
    return LoadedModel(
        model=model,
        hp=hp,
        rig=rig,
        settings=plain,
        rules=cards.rules,
        split_mode=cards.split_mode,
        cards=cards.every,
        used=cards.used,
        backends=backends,
        holding=tuple(dict.fromkeys(backends[run.device] for run in slots.runs if run.device != CPU)),
        shares=shares,
        slots=slots,
        layout=layout,
        weights=weights,
        locations=locations(layout, slots, backends),
        pipelines=cards.split_mode == "layer" and _pipelines(plain, cards.rules, slots, backends),
        order=order,
        slots_by_position=by_position(slots, order),
        held=tuple(
            [
                unused(card)
                if (index := counted_as.get(card.position)) is None
                else held_by(card, slots, 0 if joint else index, hp.n_layer_all, weights.devices[index])
                for card in sorted(cards.every, key=lambda card: card.position)
            ]
        ),
        counted_as=tuple([counted_as.get(position) for position in range(len(cards.every))]),
        blocks=blocks_of(slots, backends, hp.n_layer_all),
    )


_Devices: TypeAlias = tuple[Device, ...]


@lru_cache(maxsize=1024)
def _devices(
    rig: Rig, split_mode: SplitMode, main_gpu: int, listed: tuple[int | str, ...] | None
) -> tuple[_Devices, _Devices, _Devices, tuple[Backend, ...]]:
    """All cards, those llama.cpp would use, those it uses, and the backends of the last."""
    cards = engine_devices(rig)
    usable = usable_devices(cards, split_mode) if listed is None else listed_devices(cards, listed)
    used = chosen_devices(usable, split_mode, main_gpu)
    return cards, usable, used, tuple(device.backend for device in used)


def _overrides(
    settings: LlamaCppSettings,
    cards: Sequence[Device],
    used: Sequence[Device],
    split_mode: SplitMode,
    rules: VersionRules,
) -> tuple[Override, ...]:
    """Overrides with targets counted among the used cards."""
    if not settings.override_tensor and settings.n_cpu_moe is None:
        return ()
    by_position = sorted(cards, key=lambda card: card.position)
    resolved = resolve_overrides(settings.override_tensor, [card.backend for card in by_position])
    index = {device.position: position for position, device in enumerate(used)}
    check_overrides(settings, resolved, tuple(index), split_mode, rules)
    return tuple(replace(override, target=index.get(override.target, CPU)) for override in resolved)


def _slots(
    hp: Hparams, settings: LlamaCppSettings, used: Sequence[Device], shares: Sequence[float], *, joint: bool
) -> SlotMap:
    """Slots by shares, or by free memory where there are none; a joint device takes them all."""
    asked = "all" if settings.n_gpu_layers is None else settings.n_gpu_layers
    n_gpu_layers = resolve_n_gpu_layers(asked, hp.n_layer_all)
    if joint:
        weights: Sequence[float] = (1.0,)
    else:
        weights = shares if any(shares) else [float(device.gpu.usable_bytes) for device in used]
    return split_slots(hp.n_layer_all, n_gpu_layers, weights)


def _pipelines(
    settings: LlamaCppSettings, rules: VersionRules, slots: SlotMap, backends: Sequence[Backend]
) -> bool:  # fmt: skip
    """Whether several batches are under way at once, with copies of every graph input on every device.

    Source: src/llama-context.cpp:430-462 (llama.cpp in llama-cpp-python 0.3.36).
    """
    return (
        len(backends) > 1
        and slots.fully_offloaded
        and settings.kv_offload
        and not settings.override_tensor
        and not settings.n_cpu_moe
        and rules.has("pipeline_parallel")
        and all(buffer_rules(backend).pipelines for backend in backends)
    )
