"""What a rig draws at most and without work, and the supply that bears it: all that does not depend on a model."""

from collections.abc import Sequence
from dataclasses import dataclass

from service.core.machine import Psu
from service.core.power.connectors import boards_of
from service.core.power.draw import host_idle_w, host_w, idle_w, limit_w, peak_w, whole_machine, whole_machine_w
from service.core.power.facts import PowerFacts
from service.core.power.psu import CardPower, PsuLoad, psu_loads, recommended_psu_w, transient_w
from service.core.power.wall import wall_w
from service.core.types import Rig

DEFAULT_EFFICIENCY = "gold"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Budget:
    """Draw of a rig in watts.

    host_w: the machine around the cards. vendor_psu_w: the least supply that a card's maker asks for, 0 where none is
    known. recommended_psu_w: of each supply. supply_w: all supplies, as stated, else as recommended, with their losses
    by load as a curve. loads: what each supply bears, () for a machine that comes with its own. idle_gpus_w: with a
    model in memory.
    """

    gpus_peak_w: float
    host_w: float
    system_peak_w: float
    transient_peak_w: float
    vendor_psu_w: float
    recommended_psu_w: float
    supply_w: float
    curve: Sequence[tuple[float, float]] | None
    loads: tuple[PsuLoad, ...]
    idle_gpus_w: float
    idle_w: float

    def wall_w(self, dc_w: float) -> float:
        """What the wall gives for a load; a machine's own figure is the wall's already."""
        return dc_w if self.curve is None else wall_w(dc_w, self.supply_w, self.curve)


def budget_of(rig: Rig, facts: PowerFacts, *, host_works: bool, in_step: bool = False) -> Budget | None:
    """Draw of a rig with all cards at work; None where a card's power is not known.

    host_works: whether the processor computes part of the model. in_step: whether the cards share every layer.
    """
    gpus_w = peak_w(rig.gpus)
    if gpus_w is None:
        return None
    if whole_machine(rig):
        return _own_supply(rig, gpus_w)
    psu, rest_w = rig.machine.psu, host_w(rig, facts, host_works=host_works)
    cards = [CardPower(limit_w=limit_w(gpu) or 0.0, own_w=gpu.tdp_w or 0.0) for gpu in rig.gpus]
    vendor_w = max([board.recommended_psu_w or 0.0 for board in boards_of(gpu.board for gpu in rig.gpus)], default=0.0)
    recommended_w = recommended_psu_w(rest_w, cards, vendor_w, psu, facts, in_step=in_step)
    return Budget(
        gpus_peak_w=gpus_w,
        host_w=rest_w,
        system_peak_w=gpus_w + rest_w,
        transient_peak_w=transient_w(rest_w, cards, facts, worst_case=psu.worst_case, in_step=in_step),
        vendor_psu_w=vendor_w,
        recommended_psu_w=recommended_w,
        supply_w=(psu.rated_w or recommended_w) * psu.count,
        curve=facts.efficiency[psu.efficiency or DEFAULT_EFFICIENCY],
        loads=psu_loads(rest_w, cards, psu, facts, in_step=in_step),
        idle_gpus_w=idle_w(rig.gpus, loaded=True),
        idle_w=idle_w(rig.gpus, loaded=True) + host_idle_w(rig, facts),
    )


def _own_supply(rig: Rig, gpus_w: float) -> Budget:
    """A machine built around one chip comes with its supply."""
    most_w, idle = max(gpus_w, whole_machine_w(rig)), idle_w(rig.gpus, loaded=True)
    return Budget(
        gpus_peak_w=gpus_w,
        host_w=0.0,
        system_peak_w=most_w,
        transient_peak_w=most_w,
        vendor_psu_w=0.0,
        recommended_psu_w=most_w,
        supply_w=most_w,
        curve=None,
        loads=(),
        idle_gpus_w=idle,
        idle_w=idle,
    )


def load_fraction(load: PsuLoad, psu: Psu) -> float | None:
    """Share of its rating that a supply bears lastingly; None without a rating."""
    return None if psu.rated_w is None else load.sustained_w / psu.rated_w
