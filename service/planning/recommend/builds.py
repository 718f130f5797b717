"""Rigs of one or two kinds of card, and the chains in which a number of cards grows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final, TypeAlias

from service.planning.recommend.kinds import Kind

MAX_DEVICES: Final = 15
"""Devices of one rig that the engine takes (service/core/engines/llamacpp/refusals.py)."""

MIXED_KINDS: Final = 24
"""Kinds among which mixed rigs are looked for: 276 pairs, each in up to 28 numbers."""

Part: TypeAlias = tuple[Kind, int]


@dataclass(frozen=True, slots=True)
class Build:
    """Cards of a rig, by kind and number; larger ones come first where kinds are mixed."""

    parts: tuple[Part, ...]

    @property
    def cards(self) -> int:
        """Boards in all."""
        return sum(count for _, count in self.parts)

    @property
    def devices(self) -> int:
        """Devices in all."""
        return sum(kind.devices * count for kind, count in self.parts)

    @property
    def usable_bytes(self) -> int:
        """Memory of all cards together."""
        return sum(kind.usable_bytes * count for kind, count in self.parts)

    @property
    def bandwidth_bytes_per_s(self) -> float | None:
        """Bandwidth of all cards together."""
        return _sum((kind.bandwidth_bytes_per_s, count) for kind, count in self.parts)

    @property
    def power_w(self) -> float | None:
        """Board power of all cards together."""
        return _sum((kind.power_w, count) for kind, count in self.parts)

    @property
    def price(self) -> float | None:
        """Price of all cards together."""
        return _sum((kind.price, count) for kind, count in self.parts)

    @property
    def slots(self) -> int | None:
        """Slots that all cards take."""
        total = _sum((kind.slots, count) for kind, count in self.parts)
        return None if total is None else int(total)

    @property
    def names(self) -> list[str]:
        """As rig.gpus takes them."""
        return [kind.slug if count == 1 else f"{count}x {kind.slug}" for kind, count in self.parts]

    def contains(self, other: "Build") -> bool:
        """Whether it has all the cards of `other`."""
        have = {kind.slug: count for kind, count in self.parts}
        return all(have.get(kind.slug, 0) >= count for kind, count in other.parts)


@dataclass(frozen=True, slots=True)
class Chain:
    """Builds that differ in the number of one kind: `fixed` cards, and so many of `grown` as `numbers` says."""

    fixed: tuple[Part, ...]
    grown: Kind
    numbers: range

    def build(self, number: int) -> Build:
        """The build with `number` cards of the grown kind."""
        return Build((*self.fixed, (self.grown, number)))


def chains(kinds: Sequence[Kind], mixed: Sequence[Kind], fewest: int, most: int) -> Iterator[Chain]:
    """Every build of one kind, and of each pair of the mixed ones that one backend drives, once."""
    for kind in kinds:
        yield Chain((), kind, range(fewest, _most(kind, most) + 1))
    for one, other in combinations(mixed, 2):
        if one.backend != other.backend:
            continue
        first, second = sorted((one, other), key=lambda kind: (-kind.usable_bytes, kind.slug))
        for count in range(1, most):
            room = (MAX_DEVICES - first.devices * count) // second.devices
            yield Chain(((first, count),), second, range(max(1, fewest - count), min(most - count, room) + 1))


def _most(kind: Kind, most: int) -> int:
    return min(kind.most, most, MAX_DEVICES // kind.devices)


def _sum(parts: Iterator[tuple[float | None, int]]) -> float | None:
    total = 0.0
    for value, count in parts:
        if value is None:
            return None
        total += value * count
    return total
