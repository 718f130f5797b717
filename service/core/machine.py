"""The machine around the cards: its power supplies, the circuit they hang on, its case, and what joins the cards."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

Chassis: TypeAlias = Literal["desktop", "open-frame", "rack"]
PsuKind: TypeAlias = Literal["atx", "server"]
Efficiency: TypeAlias = Literal["bronze", "silver", "gold", "platinum", "titanium"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Psu:
    """Equal power supplies; None where the user did not say.

    rated_w: of each. feeds: cards that each supply feeds, by position, the first feeding the host as well.
    leads: cables of one supply as (kind, how many). worst_case: size for the largest step a card may make.
    """

    rated_w: float | None = None
    atx_version: str | None = None
    count: int = 1
    kind: PsuKind | None = None
    efficiency: Efficiency | None = None
    leads: tuple[tuple[str, int], ...] | None = None
    feeds: tuple[tuple[int, ...], ...] | None = None
    worst_case: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Circuit:
    """The wall circuit; None where the user did not say.

    continuous: whether the load runs for three hours or more. shared: whether other devices hang on it.
    tariff_per_kwh: price of energy in any currency.
    """

    volts: float | None = None
    amps: float | None = None
    continuous: bool | None = None
    shared: bool | None = None
    tariff_per_kwh: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Everything of a rig that is neither a card nor memory; None where the user did not say.

    slots: expansion slots of the case. cpu_w: what the processors draw at most, all of them.
    platform: name of a row of the platforms. nvlink: groups of cards that bridges or a switch join, () for none, None
    for what the cards allow. p2p: whether cards reach each other over PCI Express, None for the driver's policy.
    """

    psu: Psu = Psu()
    circuit: Circuit = Circuit()
    chassis: Chassis | None = None
    slots: int | None = None
    cpu_w: float | None = None
    platform: str | None = None
    dimms: int | None = None
    nics: int | None = None
    nvlink: tuple[tuple[int, ...], ...] | None = None
    p2p: bool | None = None


DEFAULT_MACHINE = Machine()
