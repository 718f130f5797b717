"""Workers of jobs: which releases are at work, by the database's clock."""

from datetime import datetime, timedelta

from sqlalchemy import delete, func, select
from sqlalchemy.dialects import postgresql
from sqlalchemy.orm import Session

from service.store.batch_tables import BatchWorkerTable


def see_worker(session: Session, worker_id: str, rules_version: str) -> None:
    """Note that a worker lives."""
    statement = postgresql.insert(BatchWorkerTable).values(id=worker_id, rules_version=rules_version)
    session.execute(statement.on_conflict_do_update(index_elements=[BatchWorkerTable.id], set_={"seen_at": func.now()}))


def dismiss_worker(session: Session, worker_id: str) -> None:
    """Note that a worker ended."""
    session.execute(delete(BatchWorkerTable).where(BatchWorkerTable.id == worker_id))


def silent_since(session: Session, silence: timedelta) -> datetime:
    """The moment before which a worker that was not seen again counts as gone."""
    return session.execute(select(func.now() - silence)).scalar_one()


def workers_seen(session: Session, rules_version: str, since: datetime) -> int:
    """How many workers of a release were seen since."""
    query = select(func.count()).select_from(BatchWorkerTable)
    return (
        session.scalar(query.where(BatchWorkerTable.rules_version == rules_version, BatchWorkerTable.seen_at >= since))
        or 0
    )


def forget_workers(session: Session, silence: timedelta) -> None:
    """Delete what is known of workers that were not seen for so long."""
    session.execute(delete(BatchWorkerTable).where(BatchWorkerTable.seen_at < func.now() - silence))
