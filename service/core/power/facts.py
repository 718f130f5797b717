"""Figures that the rules of power are applied to, as hardware_db states them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from service.core.machine import Psu


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """A family of processors; lanes and gen None where not known.

    peak_w: with work on the host, gpu_only_w: while only cards work; dimms: memory modules where nobody says.
    """

    slug: str | None = None
    name: str
    peak_w: float
    gpu_only_w: float
    dimms: int
    lanes: int | None = None
    gen: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PsuClass:
    """What a generation of supplies bears for about 10 ms, as a multiple of its rating."""

    name: str
    versions: frozenset[str]
    transient_fraction: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Connector:
    """A socket of a card: which lead of a supply it takes, and the maker's adapter instead, by watts of one lead."""

    kind: str
    rated_w: float
    lead: str
    leads: int
    adapter_lead: str | None = None
    adapter_w: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PowerFacts:
    """Everything that hardware_db/power.toml and platforms.toml say; compared by identity.

    *_fraction: shares of a card's own power in decode, while it waits for its turn. board_w: board, fans, disk.
    standard_sizes_w: supplies that are sold, ascending; beyond the largest, steps of beyond_step_w.
    efficiency: by class, (share of the rating, share of the wall's power that arrives), by load.
    """

    decode_fraction: float
    waiting_fraction: float
    board_w: float
    host_idle_w: float
    dimm_w: float
    nic_w: float
    sustained_fraction: float
    largest_step: float
    other_step: float
    synchronous_step: float
    worst_step: float
    standard_sizes_w: Sequence[float]
    beyond_step_w: float
    psu_classes: Sequence[PsuClass]
    efficiency: Mapping[str, Sequence[tuple[float, float]]]
    connectors: Mapping[str, Connector]
    platforms: Mapping[str, Platform]
    assumed_platform: Platform

    @property
    def best_psu_class(self) -> PsuClass:
        """What is sold today."""
        return max(self.psu_classes, key=lambda each: each.transient_fraction)

    def psu_class(self, psu: Psu) -> PsuClass:
        """The class of a supply by its ATX version; the weakest where that is not known or it is a server's."""
        weakest = min(self.psu_classes, key=lambda each: each.transient_fraction)
        if psu.kind == "server" or psu.atx_version is None:
            return weakest
        version = psu.atx_version.strip().lower().removeprefix("atx").strip(" v")
        return next((each for each in self.psu_classes if version in each.versions), weakest)
