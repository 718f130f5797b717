"""What a placement is made from: devices, slots, weights by slot, context and caches, checked and memoised."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from service.core.architectures.hparams import Hparams, read_hparams
from service.core.engines.llamacpp.context import ContextNumbers, ContextRole, resolve_context
from service.core.engines.llamacpp.devices import Device, chosen_devices, engine_devices, usable_devices
from service.core.engines.llamacpp.kv_cache import KvIndex, kv_index
from service.core.engines.llamacpp.overrides import Override, resolve_overrides
from service.core.engines.llamacpp.refusals import (
    check_device_count,
    check_overrides,
    check_split_mode,
    check_tensor_split,
)
from service.core.engines.llamacpp.settings import LlamaCppSettings, SplitMode
from service.core.engines.llamacpp.slots import CPU, SlotMap, resolve_n_gpu_layers, split_slots
from service.core.engines.llamacpp.versions import VersionRules, version_rules
from service.core.engines.llamacpp.weights import (
    WeightLayout,
    weight_layout,
)
from service.core.types import Backend, Model, Rig, Workload


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

DEFAULT_SPLIT_MODE: Final[SplitMode] = "layer"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementInputs:
    """What the parts of a placement share; devices are counted as in `used`, llama.cpp's own list.

    backends: of `used`, or only the first where the cards work as one joint device. slots: over those.
    """

    model: Model
    hp: Hparams
    settings: LlamaCppSettings
    rules: VersionRules
    split_mode: SplitMode
    cards: tuple[Device, ...]
    used: tuple[Device, ...]
    shares: tuple[float, ...]
    slots: SlotMap
    layout: WeightLayout
    ctx: ContextNumbers
    index: KvIndex

    @property
    def joint(self) -> bool:
        """Whether the cards work as one device."""
        return self.split_mode == "tensor"

    @property
    def backends(self) -> tuple[Backend, ...]:
        """Backend of every used card."""
        return tuple(device.backend for device in self.used)

    @property
    def layer_end(self) -> int:
        """End of the blocks, where the output slot is."""
        return self.hp.n_layer_all


def placement_inputs(
    model: Model, rig: Rig, settings: LlamaCppSettings, workload: Workload, use: ModelUse = MAIN_MODEL
) -> PlacementInputs:
    """Everything a placement is made from, checked against what llama.cpp refuses.

    Source: src/llama.cpp:158-301, src/llama-model.cpp:1556-1614 (llama.cpp in llama-cpp-python 0.3.36).
    """
    hp = read_hparams(model)
    rules = version_rules(settings.version, settings.date)
    split_mode = settings.split_mode or DEFAULT_SPLIT_MODE
    cards = engine_devices(rig)
    usable = usable_devices(cards, split_mode)
    used = chosen_devices(usable, split_mode, settings.main_gpu)
    check_device_count(len(used), split_mode)
    check_split_mode(split_mode, used, hp.arch, rules)
    check_tensor_split(settings, usable)
    overrides = _overrides(settings, cards, used, split_mode, rules)
    shares = settings.tensor_split if settings.tensor_split and split_mode != "none" else ()
    slots = _slots(hp, settings, used, shares, joint=split_mode == "tensor")
    holding = {run.device for run in slots.runs if run.device != CPU}
    ctx = resolve_context(
        hp,
        settings,
        hp.n_ctx_train if workload.context_tokens is None else workload.context_tokens,
        workload.parallel,
        rules,
        backends=tuple(used[device].backend for device in holding),
        n_draft=use.n_draft,
        role=use.role,
    )
    if not use.keeps_snapshots:
        ctx = replace(ctx, n_rs_seq=0) if ctx.n_rs_seq else ctx
    return PlacementInputs(
        model=model,
        hp=hp,
        settings=settings,
        rules=rules,
        split_mode=split_mode,
        cards=cards,
        used=used,
        shares=shares,
        slots=slots,
        layout=weight_layout(model, hp, overrides, settings.n_cpu_moe or 0, load_mtp=use.load_mtp),
        ctx=ctx,
        index=kv_index(hp, ctx),
    )


def _overrides(
    settings: LlamaCppSettings,
    cards: Sequence[Device],
    used: Sequence[Device],
    split_mode: SplitMode,
    rules: VersionRules,
) -> tuple[Override, ...]:
    """Overrides with targets counted among the used cards."""
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
