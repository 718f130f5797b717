"""Requests that were seen, so that what is sent twice is answered once by all processes of a database together."""

import hashlib
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

import structlog
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from service.store.database import transaction
from service.store.slack_marks import forget_marks, take_marks

log = structlog.get_logger(__name__)

# Slack's last attempt comes an hour after the first; older replays fail by their time stamp.
# Source: docs.slack.dev, Events API, "Retries", 2026-11
REMEMBERED: Final = timedelta(hours=2)
_FORGOTTEN_EVERY: Final = timedelta(minutes=10)


def _now() -> datetime:
    return datetime.now(UTC)


class Seen:
    """Marks of requests in the database; safe to share between threads and processes."""

    def __init__(self, database: Callable[[], Engine], clock: Callable[[], datetime] = _now) -> None:
        self._database = database
        self._clock = clock
        self._forgot_at: datetime | None = None

    def is_new(self, marks: Iterable[str]) -> bool:
        """Whether none of the marks was seen within two hours; remembers all of them.

        Where the database does not answer every request is new: twice answered is better than not at all.
        """
        digests = [hashlib.sha256(mark.encode()).hexdigest() for mark in marks]
        now = self._clock()
        try:
            with transaction(self._database()) as session:
                is_new = take_marks(session, digests, now, REMEMBERED)
            # a clock may be set back, by more than this
            if self._forgot_at is None or abs(now - self._forgot_at) >= _FORGOTTEN_EVERY:
                self._forgot_at = now
                with transaction(self._database()) as session:
                    forget_marks(session, now)
        except SQLAlchemyError:
            log.exception("the database failed")
            return True
        return is_new
