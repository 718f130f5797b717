"""What a placement consists of: bytes per card and for the host, and the numbers behind them."""

from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from service.core.engines.llamacpp.context import ContextNumbers
from service.core.engines.llamacpp.kv_cache import KvIndex
from service.core.engines.llamacpp.loaded import LoadedModel
from service.core.engines.llamacpp.settings import SplitMode
from service.core.engines.llamacpp.slots import SlotMap
from service.core.engines.llamacpp.weights import NO_WEIGHTS, Weights
from service.core.types import Backend

CompanionKind: TypeAlias = Literal["draft", "mmproj"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPlacement:
    """What lies in main memory; companion_bytes are those of a draft or a projector beside the model."""

    weights: Weights
    kv_bytes: int
    compute_bytes: int
    companion_bytes: int = 0

    @property
    def weights_bytes(self) -> int:
        """Weights, padding included."""
        return self.weights.weights_bytes

    @property
    def total_bytes(self) -> int:
        """Everything."""
        return self.weights.weights_bytes + self.kv_bytes + self.compute_bytes + self.companion_bytes


class DevicePlacement(NamedTuple):
    """What lies on one card of the rig.

    name: the card as llama.cpp calls it. used: False for a card the model is not spread over.
    first_slot, end_slot: its slots; in split mode tensor every card has all offloaded ones. layers: the blocks among
    them as [first, end) ranges. kv_bytes includes recurrent state. reduction_bytes: scratch for adding up partial
    results in split mode tensor, allocated when the first tokens come. companion_bytes: of a draft or a projector
    beside the model.
    """

    name: str
    backend: Backend
    used: bool
    first_slot: int
    end_slot: int
    layers: tuple[tuple[int, int], ...]
    holds_output: bool
    weights: Weights
    kv_bytes: int
    compute_bytes: int
    reduction_bytes: int = 0
    companion_bytes: int = 0

    @property
    def weights_bytes(self) -> int:
        """Weights, padding included."""
        return self.weights.weights_bytes

    @property
    def total_bytes(self) -> int:
        """Everything."""
        held_bytes = self.weights.weights_bytes + self.kv_bytes + self.compute_bytes
        return held_bytes + self.reduction_bytes + self.companion_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Devices in the order of the rig, the host, and the numbers behind them.

    slots: device of every slot, by position in the rig; in split mode tensor the joint device counts as the first used
    card. sched_copies: 4 under pipeline parallelism, else 1. device_order: used cards in llama.cpp's order.
    companions: what was placed beside the model. loaded: the model on its devices, before there was a context.
    """

    devices: tuple[DevicePlacement, ...]
    host: HostPlacement
    ctx: ContextNumbers
    caches: KvIndex
    slots: SlotMap
    split_mode: SplitMode
    device_order: tuple[int, ...]
    pipeline_parallel: bool
    sched_copies: int
    loaded: LoadedModel = field(repr=False, compare=False)
    companions: tuple["CompanionPlacement", ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CompanionBytes:
    """What a companion takes of one card or of main memory; overhead_bytes: what its backend keeps besides."""

    weights: Weights = NO_WEIGHTS
    kv_bytes: int = 0
    compute_bytes: int = 0
    overhead_bytes: int = 0

    @property
    def total_bytes(self) -> int:
        """Everything."""
        return self.weights.weights_bytes + self.kv_bytes + self.compute_bytes + self.overhead_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class CompanionPlacement:
    """A draft or a projector beside a model, on the cards in the order of the rig and on the host.

    placement: the draft's own, with the numbers of its context; None for a projector.
    """

    kind: CompanionKind
    devices: tuple[CompanionBytes, ...]
    host: CompanionBytes
    placement: Placement | None = None
