"""The hardware side of an answer: power, links and warnings about them, and all of it in words."""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from service.contract.hardware import Links, Power
from service.contract.plan import PlanWarning
from service.core.types import Rig
from service.planning.hardware.explanation import hardware_steps
from service.planning.hardware.links import links_of
from service.planning.hardware.power import power_of
from service.planning.hardware.warnings import hardware_warnings_of
from service.planning.hardware.work import Work


class Hardware(NamedTuple):
    """What an answer says about a rig at work; steps: of its explanation."""

    power: Power | None
    links: Links | None
    warnings: Sequence[PlanWarning]
    steps: Sequence[str]


# contexts of any length make a rig do the same work
@lru_cache(maxsize=512)
def hardware_of(rig: Rig, work: Work) -> Hardware:
    """Everything about a rig that does this work."""
    power, links = power_of(rig, work), links_of(rig, work)
    return Hardware(power, links, hardware_warnings_of(rig, work.mode), tuple(hardware_steps(power, links)))
