"""The audit trail: every change of a catalogue, written in the transaction that changes it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, TypeAlias

from sqlalchemy import null, select
from sqlalchemy.orm import Session

from service.store.tables import AuditTable, JsonObject

Action: TypeAlias = Literal["create", "update", "delete", "seed"]
Kind: TypeAlias = Literal["card", "model", "alias", "measurement", "key"]

COMMAND_LINE: Final = "command line"
RELEASE: Final = "release"
"""Who changes built-in data: the release that brings it."""
# who acts is known where a request comes in and noted where a row changes; nothing between needs to know it
_ACTOR: ContextVar[str] = ContextVar("actor", default=COMMAND_LINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One change: `before` is None for what was not there, `after` for what is gone."""

    id: int
    at: datetime
    actor: str
    action: str
    kind: str
    entity: str
    before: JsonObject | None
    after: JsonObject | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """Which changes are asked for; None leaves all. before_id: only older ones than that."""

    kind: str | None = None
    entity: str | None = None
    actor: str | None = None
    before_id: int | None = None


@contextmanager
def acting_as(actor: str) -> Iterator[None]:
    """Let changes inside the block be those of `actor`."""
    token = _ACTOR.set(actor)
    try:
        yield
    finally:
        _ACTOR.reset(token)


def record_change(
    session: Session,
    kind: Kind,
    entity: str,
    *,
    before: JsonObject | None,
    after: JsonObject | None,
    action: Action | None = None,
    actor: str | None = None,
) -> None:
    """Note a change; what was and is there says the action, the context the actor, where they are not given."""
    chosen = action or ("create" if before is None else "delete" if after is None else "update")
    session.add(
        AuditTable(
            actor=actor or _ACTOR.get(),
            action=chosen,
            kind=kind,
            entity=entity,
            # a JSON column takes None for the JSON value null
            before=null() if before is None else before,
            after=null() if after is None else after,
        )
    )


def record_seed(session: Session, kind: Kind, *, inserted: int, changed: Sequence[str], removed: Sequence[str]) -> None:
    """Note in one row what a release did to the built-in part of a catalogue; what it brought is in its files."""
    if inserted or changed or removed:
        done: JsonObject = {"inserted": inserted, "changed": list(changed), "removed": list(removed)}
        record_change(session, kind, "built-in", before=None, after=done, action="seed", actor=RELEASE)


def audit_entries(session: Session, wanted: AuditFilter, *, limit: int) -> list[AuditEntry]:
    """Read changes, the newest first."""
    query = select(AuditTable).order_by(AuditTable.id.desc()).limit(limit)
    for column, value in (
        (AuditTable.kind, wanted.kind), (AuditTable.entity, wanted.entity), (AuditTable.actor, wanted.actor)
    ):  # fmt: skip
        if value is not None:
            query = query.where(column == value)
    if wanted.before_id is not None:
        query = query.where(AuditTable.id < wanted.before_id)
    return [_entry(row) for row in session.scalars(query)]


def _entry(row: AuditTable) -> AuditEntry:
    return AuditEntry(
        id=row.id,
        at=row.at,
        actor=row.actor,
        action=row.action,
        kind=row.kind,
        entity=row.entity,
        before=row.before,
        after=row.after,
    )
