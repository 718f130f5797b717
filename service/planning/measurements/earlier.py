"""What earlier measurements of the same configuration say of one."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy.orm import Session

from service.measurements.runs import Figure
from service.planning.measurements.judging import BELIEVED, Earlier, Verdict, judged_by_earlier
from service.store.measurements import MeasurementEntry, accepted_of


def judged_among_accepted(session: Session, entry: MeasurementEntry) -> Verdict:
    """Whether one that nothing else speaks against agrees with the accepted ones of its configuration."""
    if entry.configuration is None:
        return BELIEVED
    cpu, gpus = _machine(entry.facts)
    earlier = [
        Earlier(
            id=one.id,
            value=one.value or 1.0,
            stddev=one.stddev,
            build=one.build,
            by_same=cpu is not None and _machine(one.facts) == (cpu, gpus),
        )
        for one in accepted_of(session, entry.configuration)
    ]
    return judged_by_earlier(Figure(**entry.facts["figure"]), entry.build, earlier)


def _machine(facts: Mapping[str, Any]) -> tuple[str | None, list[str] | None]:
    setup = facts.get("setup", {})
    return setup.get("cpu"), setup.get("gpus")
