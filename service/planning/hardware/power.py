"""Power of an answer: the rig's own figures, and what the plan's work makes of them."""

from functools import lru_cache

from service.catalog.power_facts import power_facts
from service.contract import estimate as contract
from service.contract.hardware import Power
from service.core.estimate import Estimate
from service.core.power.budget import DEFAULT_EFFICIENCY, Budget, budget_of, load_fraction
from service.core.power.draw import decode_w, platform_of, whole_machine
from service.core.power.energy import cost, kwh_per_year, wh_per_1000_tokens
from service.core.types import Rig
from service.planning.hardware.work import Work


@lru_cache(maxsize=1024)
def rig_budget(rig: Rig, *, host_works: bool, in_step: bool) -> Budget | None:
    """Figures of a rig that no plan changes but by putting work on the host or by sharing every layer."""
    return budget_of(rig, power_facts(), host_works=host_works, in_step=in_step)


def power_of(rig: Rig, work: Work) -> Power | None:
    """Power while tokens are generated, at peak and without work; None where a card's power is not known."""
    budget = rig_budget(rig, host_works=work.mode.host_works, in_step=work.mode.together)
    if budget is None:
        return None
    gpus_w = _decode_w(rig, work)
    system_w = gpus_w + budget.host_w
    wall_w = budget.wall_w(system_w)
    energy = _energy(wall_w, work.tokens_per_s)
    tariff = rig.machine.circuit.tariff_per_kwh
    idle_wall_w = budget.wall_w(budget.idle_w)
    fractions = [load_fraction(load, rig.machine.psu) for load in budget.loads]
    return Power(
        gpus_peak_w=budget.gpus_peak_w,
        gpus_decode_w=gpus_w,
        gpus_idle_w=budget.idle_gpus_w,
        system_peak_w=budget.system_peak_w,
        system_decode_w=system_w,
        transient_peak_w=budget.transient_peak_w,
        recommended_psu_w=budget.recommended_psu_w,
        psu_load_fraction=max([each for each in fractions if each is not None], default=None),
        wall_peak_w=budget.wall_w(budget.system_peak_w),
        wall_decode_w=wall_w,
        wall_idle_w=idle_wall_w,
        energy_wh_per_1000_tokens=energy,
        cost_per_1000_tokens=None if energy is None or tariff is None else _priced(energy, tariff),
        idle_cost_per_year=None if tariff is None else cost(1000 * kwh_per_year(idle_wall_w), tariff),
        assumptions=list(_assumptions(rig, host_works=work.mode.host_works)),
    )


def at_rate(power: Power, tokens_per_s: contract.Estimate, tariff_per_kwh: float | None) -> Power:
    """The same draw with another rate of tokens, as where measurements shift it."""
    energy = _energy(
        power.wall_decode_w, Estimate(low=tokens_per_s.low, mid=tokens_per_s.mid, high=tokens_per_s.high)
    )  # fmt: skip
    price = None if energy is None or tariff_per_kwh is None else _priced(energy, tariff_per_kwh)
    return power.model_copy(update={"energy_wh_per_1000_tokens": energy, "cost_per_1000_tokens": price})


def _decode_w(rig: Rig, work: Work) -> float:
    """Mean draw of all cards in decode; one that holds nothing stays idle."""
    facts, total = power_facts(), 0.0
    for gpu, busy, held in zip(rig.gpus, work.busy_fractions, work.weights_bytes, strict=True):
        if held:
            total += decode_w(gpu, busy, facts) or 0.0
        elif gpu.board is not None:
            total += gpu.board.idle_w or 0.0
    return total


def _energy(wall_w: float, tokens_per_s: Estimate | None) -> contract.Estimate | None:
    """Energy of a thousand tokens; the fewer of them in a second, the more."""
    if tokens_per_s is None:
        return None
    return contract.Estimate(
        low=wh_per_1000_tokens(wall_w, tokens_per_s.high),
        mid=wh_per_1000_tokens(wall_w, tokens_per_s.mid),
        high=wh_per_1000_tokens(wall_w, tokens_per_s.low),
    )


def _priced(energy: contract.Estimate, tariff: float) -> contract.Estimate:
    return contract.Estimate(
        low=cost(energy.low, tariff), mid=cost(energy.mid, tariff), high=cost(energy.high, tariff)
    )  # fmt: skip


@lru_cache(maxsize=1024)
def _assumptions(rig: Rig, *, host_works: bool) -> tuple[str, ...]:
    facts, machine = power_facts(), rig.machine
    if whole_machine(rig):
        return ("Figures are the chip's and the machine's that is sold around it; its own supply is enough.",)
    platform, said = platform_of(rig, facts), []
    if machine.cpu_w is None:
        watts = platform.peak_w if host_works else platform.gpu_only_w
        doing = "computes part of the model" if host_works else "only feeds the cards"
        said.append(f"The processor draws {watts:.0f} W while it {doing}, as {platform.name} does; rig.host.cpu_w.")
    said.append(
        f"Board, fans and disk draw {facts.board_w:.0f} W, {machine.dimms or platform.dimms} memory modules "
        f"{facts.dimm_w:.0f} W each."
    )
    if machine.psu.efficiency is None:
        said.append(f"The supply loses what one of the class {DEFAULT_EFFICIENCY} does; rig.psu.efficiency.")
    if machine.psu.rated_w is None:
        said.append(
            f"A supply is recommended that is filled to {facts.sustained_fraction:.0%} and bears a step of "
            f"{facts.largest_step:g} times the largest card's power as one of {facts.psu_class(machine.psu).name} "
            "does; rig.psu."
        )
    if machine.psu.count > 1:
        said.append(f"{machine.psu.count} supplies have a common ground and start together, through an adapter.")
    if machine.psu.count > 1 and machine.psu.feeds is None:
        said.append(f"The cards are divided over {machine.psu.count} supplies as evenly as they go; rig.psu.feeds.")
    return tuple(said)
