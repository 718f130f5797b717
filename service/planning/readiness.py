"""Whether questions can be answered at this moment, part by part."""

from typing import Final, Literal, TypeAlias

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from service.planning.planner import Planner
from service.store.migrations import current_revision, known_revisions

Part: TypeAlias = Literal["database", "migrations", "catalogue"]
READY: Final = "ok"
_AWAY: Final = "The database does not answer."
_UNKNOWN: Final = "The database does not answer, so it cannot be said."


def readiness(planner: Planner, database: Engine) -> dict[Part, str]:
    """Say of each part that it is ready, or what is missing and what to do."""
    try:
        revision = current_revision(database)
    except SQLAlchemyError:
        states: dict[Part, str] = {"database": _AWAY, "migrations": _UNKNOWN}
    else:
        states = {"database": READY, "migrations": _migrations(revision)}
    return states | {"catalogue": _catalogue(planner)}


def readiness_to_plan(planner: Planner) -> dict[Part, str]:
    """Say of what plans need that it is ready; of the database what was last seen of it, without waiting for it."""
    return {"database": _AWAY if planner.catalogues.is_away else READY, "catalogue": _catalogue(planner)}


def _migrations(revision: str | None) -> str:
    """A database that a newer release has migrated still serves this one: migrations are made so."""
    known = known_revisions()
    if revision is None or revision in known[1:]:
        return "The database is not at this release: run rigfit migrate."
    return READY


def _catalogue(planner: Planner) -> str:
    try:
        has_catalogues = planner.has_catalogues()
    except SQLAlchemyError:
        has_catalogues = False
    return READY if has_catalogues else "The catalogues are empty: run rigfit migrate."
