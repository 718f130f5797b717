"""Warnings about power, cooling and links: rows of hardware_db/warnings.toml whose conditions hold."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from service.catalog.hardware_warnings import HardwareWarning, Scope, hardware_warnings
from service.contract.plan import PlanWarning
from service.core.conditions import Facts, all_hold
from service.core.types import Rig
from service.planning.hardware.facts import card_facts, psu_facts, rig_facts
from service.planning.hardware.power import rig_budget
from service.planning.hardware.work import Mode


@lru_cache(maxsize=1024)
def hardware_warnings_of(rig: Rig, mode: Mode) -> Sequence[PlanWarning]:
    """Every warning that applies to a rig in this mode, in the order of the table."""
    budget = rig_budget(rig, host_works=mode.host_works, in_step=mode.together)
    return (
        *_raised("rig", rig_facts(rig, mode, budget)),
        *(warning for facts in psu_facts(rig, budget) for warning in _raised("psu", facts)),
        *(warning for facts in card_facts(rig, mode) for warning in _raised("card", facts)),
    )


def _raised(scope: Scope, facts: Facts) -> Iterator[PlanWarning]:
    """Rows that hold; what would have to be said without one of its numbers is not said."""
    for row in hardware_warnings()[scope]:
        if all_hold(row.when, facts) and not any(facts[name] is None for name in row.said):
            yield _warning(row, facts)


def _warning(row: HardwareWarning, facts: Facts) -> PlanWarning:
    numbers: dict[str, Any] = {name: facts[name] for name in row.numbers if facts[name] is not None}
    return PlanWarning(
        code=row.code, severity=row.severity, message=row.message.format_map(facts), numbers=numbers
    )  # fmt: skip
