"""A counter per catalogue, so that a process notices cheaply that its copy is old."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from sqlalchemy import Engine, select, update
from sqlalchemy.orm import Session

from service.store.database import transaction
from service.store.tables import CatalogueTable

Catalogue: TypeAlias = Literal["gpus", "models", "measurements"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What a synchronisation did, in rows."""

    inserted: int = 0
    changed: int = 0
    removed: int = 0

    def __bool__(self) -> bool:
        return bool(self.inserted or self.changed or self.removed)


def revisions(session: Session) -> Mapping[str, int]:
    """Read the counter of every catalogue: one row each, no other table is touched."""
    rows = session.execute(select(CatalogueTable.name, CatalogueTable.revision))
    return {row.name: row.revision for row in rows}


def builtin_digest(session: Session, catalogue: Catalogue) -> str | None:
    """Read the digest of the built-in data that a catalogue was last seeded from, None before the first time."""
    return session.scalar(select(CatalogueTable.builtin_digest).where(CatalogueTable.name == catalogue))


def lock_catalogue(session: Session, catalogue: Catalogue) -> str | None:
    """Make other writers of a catalogue wait for this transaction, and read its `builtin_digest`.

    Must be the first statement of the transaction: SQLite refuses to turn an old snapshot into a write.
    """
    return session.execute(
        update(CatalogueTable)
        .where(CatalogueTable.name == catalogue)
        .values(revision=CatalogueTable.revision)
        .returning(CatalogueTable.builtin_digest)
    ).scalar_one()


def move_revision(session: Session, catalogue: Catalogue, *, builtin_digest: str | None = None) -> None:
    """Count a change of a catalogue, and note what it was seeded from where that is what changed it."""
    values: dict[str, object] = {"revision": CatalogueTable.revision + 1}
    if builtin_digest is not None:
        values["builtin_digest"] = builtin_digest
    session.execute(update(CatalogueTable).where(CatalogueTable.name == catalogue).values(values))


def follow_builtin_data(
    engine: Engine, catalogue: Catalogue, digest: str, synchronise: Callable[[Session], Changes]
) -> Changes:
    """Run `synchronise` unless the catalogue was last seeded from data of this `digest`; then nothing is locked.

    Of several processes that start at once, one does the work and the others find it done.
    """
    with Session(engine) as session:
        if builtin_digest(session, catalogue) == digest:
            return Changes()
    with transaction(engine) as session:
        if lock_catalogue(session, catalogue) == digest:
            return Changes()
        changes = synchronise(session)
        move_revision(session, catalogue, builtin_digest=digest)
        return changes
