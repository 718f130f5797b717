"""The keys of a process, read again in time."""

from contextlib import suppress
from typing import Final

from anyio import move_on_after, to_thread
from sqlalchemy.exc import SQLAlchemyError

from service.planning.access.ring import KeyRing

PATIENCE_S: Final = 1.0
"""How long a request waits for a database that does not answer; then the keys that were read last count."""


async def read_in_time(ring: KeyRing) -> None:
    """Read the keys where that is due and possible; afterwards `was_read` says whether any are known."""
    if ring.is_fresh:
        return
    with suppress(SQLAlchemyError), move_on_after(PATIENCE_S):
        await to_thread.run_sync(ring.refresh, abandon_on_cancel=True)
