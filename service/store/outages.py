"""What a failure of the database means: away for a while, of another release, or a fault of ours."""

import sqlite3
from typing import Final

from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as NoConnectionLeft

# undefined table and column. Source: PostgreSQL 18, appendix A (error codes)
_OTHER_TABLES: Final = ("42P01", "42703")


def is_outage(error: Exception) -> bool:
    """Whether a database may be back in a while: unreachable, shutting down, locked, full, all connections in use."""
    if isinstance(error, NoConnectionLeft):
        return True
    if not isinstance(error, DBAPIError) or lacks_tables(error):
        return False
    return isinstance(error, OperationalError | InterfaceError) or error.connection_invalidated


def lacks_tables(error: SQLAlchemyError) -> bool:
    """Whether the database answers, but has not this release's tables."""
    cause = error.orig if isinstance(error, DBAPIError) else None
    if isinstance(cause, sqlite3.OperationalError):
        return "no such table" in str(cause) or "no such column" in str(cause)
    return getattr(cause, "sqlstate", None) in _OTHER_TABLES
