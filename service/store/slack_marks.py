"""Marks of Slack's requests, shared by every process of a database, each kept until it cannot come again."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy import delete
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from service.store.tables import SlackMarkTable


def take_marks(session: Session, marks: Sequence[str], now: datetime, kept: timedelta) -> bool:
    """Whether none of the marks is held; all are held from now on. Of several that take one at once, one is told so."""
    insert = postgresql.insert if session.get_bind().dialect.name == "postgresql" else sqlite.insert
    # in one order, so that two that take the same marks never wait for each other
    rows = [{"mark": mark, "expires_at": now + kept} for mark in sorted(set(marks))]
    if not rows:
        return True
    statement = insert(SlackMarkTable).values(rows)
    taken = statement.on_conflict_do_update(
        index_elements=[SlackMarkTable.mark],
        set_={"expires_at": statement.excluded.expires_at},
        where=SlackMarkTable.expires_at < now,
    ).returning(SlackMarkTable.mark)
    return len(session.scalars(taken).all()) == len(rows)


def forget_marks(session: Session, now: datetime) -> None:
    """Delete the marks that cannot come again."""
    session.execute(delete(SlackMarkTable).where(SlackMarkTable.expires_at < now))
