"""What workers see to beside answering: that they are known to live, jobs of releases that are gone, and old jobs."""

import time
from datetime import timedelta

import structlog
from sqlalchemy import Engine

from service.planning.queue.entries import enqueue_upload
from service.store.batch_workers import dismiss_worker, forget_workers, see_worker, silent_since
from service.store.batches import forget_batches, orphans, restart
from service.store.database import transaction

log = structlog.get_logger(__name__)


class Upkeep:
    """The upkeep of one worker; every worker does all of it, at most one at a time each piece."""

    def __init__(
        self, database: Engine, *, worker_id: str, rules_version: str, silence: timedelta, kept: timedelta
    ) -> None:
        self._database = database
        self._worker_id = worker_id
        self._rules_version = rules_version
        self._silence = silence
        self._kept = kept
        self._seen_since_s: float | None = None
        self._seen_at_s = 0.0

    def done(self) -> None:
        """See to everything once."""
        with transaction(self._database) as session:
            see_worker(session, self._worker_id, self._rules_version)
        if self._has_seen_enough():
            self._take_over()
        with transaction(self._database) as session:
            forget_workers(session, 10 * self._silence)
            forgotten = forget_batches(session, self._kept)
        if forgotten:
            log.info("old batches were deleted", count=forgotten)

    def leave(self) -> None:
        """Say that this worker ends."""
        with transaction(self._database) as session:
            dismiss_worker(session, self._worker_id)

    def _has_seen_enough(self) -> bool:
        """Whether the database answered for as long as a worker may be silent: after an outage all others seem gone."""
        now_s, silence_s = time.monotonic(), self._silence.total_seconds()
        if self._seen_since_s is None or now_s - self._seen_at_s > silence_s:
            self._seen_since_s = now_s
        self._seen_at_s = now_s
        return now_s - self._seen_since_s >= silence_s

    def _take_over(self) -> None:
        """Begin anew, under this release, the jobs of releases without a worker: rules are not mixed in one job."""
        with transaction(self._database) as session:
            since = silent_since(session, self._silence)
            for batch_id in orphans(session, self._rules_version, since):
                log.warning("a batch of another release begins anew", batch=batch_id, rules=self._rules_version)
                turn = restart(session, batch_id, self._rules_version)
                enqueue_upload(session, turn, self._rules_version)
