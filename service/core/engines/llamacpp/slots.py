"""Which device each layer slot goes to: slots 0..La-1 are blocks, slot La is the output layer."""

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Literal, NamedTuple

from service.core.problems import Contradiction, InvalidRequest

CPU: Final = -1
"""Device index of the host."""

_FLOAT32 = struct.Struct("<f")
_FLOAT32_MAX: Final = 3.4028234663852886e38
_FLOAT32_MIN_NORMAL: Final = 1.1754943508222875e-38


def float32(value: float) -> float:
    """The float32 nearest to `value`, as the double that equals it.

    Sums, products and quotients of two float32 values may be taken in double and rounded by this: double
    has more than twice the digits of float32 and two more, so rounding twice changes nothing.
    Raises OverflowError beyond float32.
    """
    rounded: float = _FLOAT32.unpack(_FLOAT32.pack(value))[0]
    return rounded


def float32s(values: Sequence[float]) -> tuple[float, ...]:
    """`float32` of each value."""
    layout = f"<{len(values)}f"
    return struct.unpack(layout, struct.pack(layout, *values))


class SlotRun(NamedTuple):
    """Slots `first` to `end` (exclusive) on one device."""

    device: int
    first: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotMap:
    """Runs of consecutive slots per device, in slot order and without gaps; CPU is device -1.

    `n_slots` is La + 1: every block of the file, MTP blocks included, and the output layer.
    """

    runs: tuple[SlotRun, ...]
    n_slots: int
    _firsts: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_firsts", tuple([run.first for run in self.runs]))

    def device_of(self, slot: int) -> int:
        """Device that holds `slot`."""
        return self.runs[bisect_right(self._firsts, slot) - 1].device

    def range_of(self, device: int) -> tuple[int, int]:
        """First and end slot of `device`; an empty range where it holds none. A device never has two runs."""
        for run in self.runs:
            if run.device == device:
                return run.first, run.end
        return 0, 0

    @property
    def output_device(self) -> int:
        """Device of the output layer."""
        return self.runs[-1].device

    @property
    def fully_offloaded(self) -> bool:
        """Whether no slot, the output included, stays on the host."""
        return self.runs[0].device != CPU


def resolve_n_gpu_layers(n_gpu_layers: int | Literal["all"], n_layer_all: int) -> int:
    """Slots to offload: "all" and any negative count mean every slot, larger counts are cut to La + 1.

    Source: src/llama-model.cpp:2002 and 1590, llama.cpp in llama-cpp-python 0.3.36.
    """
    n_slots = n_layer_all + 1
    if n_gpu_layers == "all" or n_gpu_layers < 0:
        return n_slots
    return min(n_gpu_layers, n_slots)


def check_weights(weights: Sequence[float]) -> None:
    """Refuse shares that float32 cannot hold or that no split can be made of.

    Raises InvalidRequest for NaN, infinite, negative or out-of-range shares.
    Source: std::stof in common/arg.cpp:2847, llama.cpp in llama-cpp-python 0.3.36; a negative share
    would make the cut points fall, which std::upper_bound does not allow.
    """
    for position, weight in enumerate(weights):
        if not (weight == 0 or _FLOAT32_MIN_NORMAL <= weight <= _FLOAT32_MAX):
            raise InvalidRequest(
                f"tensor_split value {position} is {weight}; give each device a share between 0 and 3.4e38",
                fields=("engine.tensor_split",),
            )


def cut_points(weights: Sequence[float]) -> tuple[float, ...]:
    """Cumulative shares of the devices as float32 values, the last being 1.

    Raises Contradiction where the shares add up to zero or beyond float32.
    Source: src/llama-model.cpp:1576-1587, llama.cpp in llama-cpp-python 0.3.36.
    """
    sums = []
    total = 0.0
    pack, unpack = _FLOAT32.pack, _FLOAT32.unpack
    try:
        for weight in float32s(weights):
            (total,) = unpack(pack(total + weight))
            sums.append(total)
    except OverflowError:
        sums = [0.0]
    if sums[-1] == 0:
        raise Contradiction(
            "the devices' shares add up to nothing that float32 can hold, so no layer can be placed: give at least "
            "one device a share above zero, or free memory to split by",
            fields=("engine.tensor_split",),
        )
    return float32s([partial / total for partial in sums])


@lru_cache(maxsize=1024)
def _slot_positions(offloaded: int) -> tuple[float, ...]:
    """f32(j) / f32(offloaded) for every j in 0..offloaded."""
    return float32s([j / offloaded for j in range(offloaded + 1)])


def first_slots_beyond(cuts: Sequence[float], offloaded: int) -> list[int]:
    """Smallest j in 0..offloaded with f32(j) / f32(offloaded) not below each cut: where the next device begins.

    Source: std::upper_bound in src/llama-model.cpp:1597, llama.cpp in llama-cpp-python 0.3.36.
    """
    positions = _slot_positions(offloaded)
    return [min(bisect_left(positions, cut), offloaded) for cut in cuts]


@lru_cache(maxsize=4096)
def _split(n_layer_all: int, n_gpu_layers: int, weights: tuple[float, ...]) -> SlotMap:
    n_slots = n_layer_all + 1
    offloaded = min(max(n_gpu_layers, 0), n_slots) if weights else 0
    first_offloaded = n_slots - offloaded
    runs = [SlotRun(device=CPU, first=0, end=first_offloaded)] if first_offloaded else []
    if offloaded:
        check_weights(weights)
        begin = 0
        for device, end in enumerate(first_slots_beyond(cut_points(weights), offloaded)):
            if end > begin:
                runs.append(SlotRun(device, first_offloaded + begin, first_offloaded + end))
                begin = end
    return SlotMap(runs=tuple(runs), n_slots=n_slots)


def split_slots(n_layer_all: int, n_gpu_layers: int, weights: Sequence[float]) -> SlotMap:
    """Layer slots to devices by llama.cpp's float32 rule.

    n_layer_all: La, the block count of the file; n_gpu_layers: slots to offload, counted from the output
    layer down (see resolve_n_gpu_layers); weights: one share per device, free bytes where no -ts is given;
    no devices means everything on the host.
    Raises InvalidRequest or Contradiction for shares that cannot be split by.
    Source: src/llama-model.cpp:1556-1614, llama.cpp in llama-cpp-python 0.3.36.
    """
    return _split(n_layer_all, n_gpu_layers, tuple(weights))
