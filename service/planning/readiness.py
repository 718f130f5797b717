"""Whether questions can be answered at this moment."""

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from service.planning.planner import Planner
from service.store.migrations import current_revision, head_revision


def why_not_ready(planner: Planner, database: Engine) -> str | None:
    """Say what is missing, None where nothing is."""
    try:
        revision = current_revision(database)
    except SQLAlchemyError:
        return "The database does not answer."
    if revision != head_revision():
        return "The database is not at this release: run rigfit migrate."
    if not planner.has_catalogues():
        return "The catalogues are empty: run rigfit migrate."
    return None
