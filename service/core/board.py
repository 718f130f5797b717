"""The physical card behind a device: what power, slots, cooling and links depend on."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

Form: TypeAlias = Literal["card", "module", "chip"]
NvlinkKind: TypeAlias = Literal["none", "bridge", "mesh", "switch"]
PeerPolicy: TypeAlias = Literal["yes", "no", "nvlink_only", "unknown"]
Attachment: TypeAlias = Literal["cpu", "chipset", "switch"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """Facts of a card that do not depend on the machine it sits in; None where the catalogue does not know.

    form: a card in a slot, a module of a server (SXM, OAM, superchip), or part of a system's own chip.
    devices: how many devices software sees on it. connectors: (kind, how many), () where it has none.
    cooled_by_case: whether it has no fan of its own. nvlink_bytes_per_s: all its NVLinks, one direction.
    pcie_p2p: whether the stock driver lets it reach another card of its kind over PCI Express.
    system_power_w: what the whole machine draws at most, for machines sold around one chip.
    idle_w, loaded_w: draw without work, empty and with a model in memory.
    """

    form: Form | None = None
    segment: str | None = None
    devices: int = 1
    recommended_psu_w: float | None = None
    connectors: tuple[tuple[str, int], ...] | None = None
    slot_width: int | None = None
    cooled_by_case: bool = False
    nvlink: NvlinkKind = "none"
    nvlink_bytes_per_s: float | None = None
    nvlink_max_gpus: int | None = None
    pcie_p2p: PeerPolicy = "unknown"
    system_power_w: float | None = None
    idle_w: float | None = None
    loaded_w: float | None = None
