"""What callers took of their rates, of all processes together: by digests, in PostgreSQL, by its own clock."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from sqlalchemy import Interval, bindparam, case, delete, func, select, tuple_
from sqlalchemy.dialects import postgresql
from sqlalchemy.orm import Session, aliased

from service.store.tables import RateUseTable

MOST_ROWS: Final = 100_000
# rows are written in moments; what is dated later than that was written before the clock was set back
_AHEAD: Final = timedelta(seconds=5)
# statements that wait for each other's rows must not judge by the moment they began at
_NOW: Final = func.clock_timestamp()


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenUse:
    """What one process let through: max(x + added, now + left) of the moment x at which the rest is worked off."""

    added: timedelta
    left: timedelta


def add_uses(session: Session, policy: str, uses: Mapping[str, TakenUse]) -> None:
    """Add what one process let through, by the callers' digests."""
    if not uses:
        return
    earlier = case((RateUseTable.changed_at > _NOW + _AHEAD, _NOW), else_=RateUseTable.until)
    until = _NOW + bindparam("left", type_=Interval)
    added = postgresql.insert(RateUseTable).values(policy=policy, caller=bindparam("who"), until=until, changed_at=_NOW)
    statement = added.on_conflict_do_update(
        index_elements=["policy", "caller"],
        set_={"until": func.greatest(earlier + bindparam("added", type_=Interval), until), "changed_at": _NOW},
    )
    # in one order, so that two that add to the same rows never wait for each other
    rows = [{"who": who, "added": use.added, "left": use.left} for who, use in sorted(uses.items())]
    session.connection().execute(statement, rows)


def uses_changed(session: Session, policy: str, within: timedelta | None) -> dict[str, float]:
    """Seconds until callers' uses are worked off, of those that changed in a while; None: of all."""
    left = func.extract("epoch", RateUseTable.until - _NOW)
    query = select(RateUseTable.caller, left).where(
        RateUseTable.policy == policy, RateUseTable.until > _NOW, RateUseTable.changed_at <= _NOW + _AHEAD
    )
    if within is not None:
        query = query.where(RateUseTable.changed_at > _NOW - within)
    found = session.execute(query.order_by(RateUseTable.changed_at.desc()).limit(MOST_ROWS))
    return {caller: float(seconds) for caller, seconds in found}


def forget_uses(session: Session) -> None:
    """Delete what is worked off; rows that are being written are left to the next time."""
    rows = aliased(RateUseTable)
    old = (
        select(rows.policy, rows.caller)
        .where((rows.until < _NOW) | (rows.changed_at > _NOW + _AHEAD))
        .with_for_update(skip_locked=True)
    )
    session.execute(delete(RateUseTable).where(tuple_(RateUseTable.policy, RateUseTable.caller).in_(old)))
