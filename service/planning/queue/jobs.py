"""Batch jobs for those who ask: send one, follow it, cancel it, take its answers."""

import hashlib
import secrets
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple, cast

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from service.contract.batches import Batch, Status
from service.contract.problem import Problem
from service.core.problems import PlanProblem, Unsupported
from service.planning.queue.entries import enqueue_upload
from service.planning.queue.kinds import Answered
from service.planning.queue.lines import lines_of
from service.planning.queue.release import RULES
from service.planning.queue.sent_once import KeyReused, SentOnce
from service.planning.queue.uploads import KINDS
from service.settings import Settings
from service.store.batch_chunks import chunks_with_results
from service.store.batch_marks import BatchMark, batch_mark, keep_mark
from service.store.batch_workers import silent_since, workers_seen
from service.store.batches import (
    CANCELLED,
    FINISHED,
    BatchEntry,
    StoredBatch,
    Turn,
    batch,
    end_batch,
    keep_batch,
    latest_batches,
    unfinished_count,
)
from service.store.database import transaction
from service.store.queue import has_queue

_ID_BYTES = 16


class NoSuchBatch(PlanProblem):
    """A job that was never sent, or is forgotten."""

    slug = "not-found"


class Unfinished(PlanProblem):
    """A job without a result."""

    slug = "unfinished"


class TooManyBatches(PlanProblem):
    """More jobs than may wait."""

    slug = "rate-limited"


class _SentMeanwhile(Exception):
    """Another process kept the same upload at this moment: what was begun is undone."""


class Result(NamedTuple):
    """The answers of a job as bytes in pieces, read from the database as they are taken."""

    media_type: str
    file_name: str
    pieces: Iterator[bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchJobs:
    """The jobs of a database; silence: after which a worker that is not seen counts as gone."""

    database: Engine
    most_unfinished: int
    silence: timedelta

    @classmethod
    def of(cls, database: Engine, settings: Settings) -> "BatchJobs":
        """As the settings say."""
        silence = timedelta(seconds=settings.worker_silence_s)
        return cls(database=database, most_unfinished=settings.max_batches, silence=silence)

    def submit(self, content: bytes, kind: str, form: str | None = None, once: SentOnce | None = None) -> Batch:
        """Keep an upload for workers to answer; once this returns nothing of it can be lost.

        kind: one of KINDS; form: what a table is given back as where that is another; once: under which it is one job
        for as long as that is kept. Raises Unsupported for a database without a queue, TooManyBatches, KeyReused.
        """
        self._require_queue()
        entry = BatchEntry(
            id=f"bat_{secrets.token_hex(_ID_BYTES)}",
            kind=kind,
            form=form or kind,
            rules_version=RULES,
            content=content,
            digest=hashlib.sha256(content).hexdigest(),
        )
        if once is None:
            self._keep(entry)
            return self.batch(entry.id)
        mark = BatchMark(mark=once.mark, asked=_asked(entry), batch_id=entry.id)
        # of several that come at once one is kept, and the others find it
        while (kept := self._sent_before(mark)) is None:
            with suppress(_SentMeanwhile):
                self._keep(entry, mark)
        return self.batch(kept.batch_id)

    def _keep(self, entry: BatchEntry, mark: BatchMark | None = None) -> None:
        with transaction(self.database) as session:
            if unfinished_count(session) >= self.most_unfinished:
                raise TooManyBatches(f"{self.most_unfinished:,} batches wait already: send this one later.")
            keep_batch(session, entry)
            if mark is not None and not keep_mark(session, mark):
                raise _SentMeanwhile
            enqueue_upload(session, Turn(batch_id=entry.id, restarts=0), RULES)

    def _sent_before(self, mark: BatchMark) -> BatchMark | None:
        with Session(self.database) as session:
            kept = batch_mark(session, mark.mark)
        if kept is not None and kept.asked != mark.asked:
            raise KeyReused(
                f"This Idempotency-Key stands for another upload, which became {kept.batch_id}: send a new key with "
                "what is new, and the same key only with the same bytes and parameters."
            )
        return kept

    def batch(self, batch_id: str) -> Batch:
        """How far a job is; raises NoSuchBatch."""
        with Session(self.database) as session:
            return self._told(session, _found(session, batch_id))

    def latest(self, most: int) -> list[Batch]:
        """The latest jobs, the newest first."""
        with Session(self.database) as session:
            return [self._told(session, stored) for stored in latest_batches(session, most)]

    def cancel(self, batch_id: str) -> Batch:
        """End a job: no chunk is begun any more, and of those begun no row is kept; one that ended stays as it is."""
        with transaction(self.database) as session:
            _found(session, batch_id)
            end_batch(session, batch_id, CANCELLED)
        return self.batch(batch_id)

    def result(self, batch_id: str) -> Result:
        """The answers of a finished job, in the order and the form of what was sent; raises NoSuchBatch, Unfinished."""
        with Session(self.database) as session:
            stored = _found(session, batch_id)
        if stored.status != FINISHED:
            raise Unfinished(_why_unfinished(stored))
        kind = KINDS[stored.form]
        pieces = kind.write(self._rows(batch_id), stored.layout or {}, _address(batch_id))
        return Result(kind.media_type, kind.file_name, pieces)

    def _rows(self, batch_id: str) -> Iterator[Answered]:
        for chunk, results in chunks_with_results(self.database, batch_id):
            for line, result in zip(lines_of(chunk), results, strict=True):
                yield Answered(line.kept, result)

    def _told(self, session: Session, stored: StoredBatch) -> Batch:
        workers = 0
        if has_queue(self.database):
            workers = workers_seen(session, stored.rules_version, silent_since(session, self.silence))
        return Batch(
            id=stored.id,
            status=cast("Status", stored.status),
            media_type=KINDS[stored.form].media_type,
            rows=stored.rows,
            rows_done=stored.rows_done,
            rows_refused=stored.rows_refused,
            workers=workers,
            rules_version=stored.rules_version,
            restarts=stored.restarts,
            created_at=stored.created_at,
            ended_at=stored.ended_at,
            problem=None if stored.problem is None else Problem.model_validate(stored.problem),
            result=f"{_address(stored.id)}/result" if stored.status == FINISHED else None,
        )

    def _require_queue(self) -> None:
        if not has_queue(self.database):
            raise Unsupported(
                "Batches that wait in a queue need PostgreSQL, and this service keeps its data in SQLite: leave queue "
                "out, and the answers come as they are made, or set RIGFIT_DATABASE_URL."
            )


def _found(session: Session, batch_id: str) -> StoredBatch:
    stored = batch(session, batch_id)
    if stored is None:
        raise NoSuchBatch(f"There is no batch {batch_id[:80]!r}.")
    return stored


def _asked(entry: BatchEntry) -> str:
    """Digest of an upload and of what is wanted of it."""
    return hashlib.sha256(f"{entry.kind} {entry.form} {entry.digest}".encode()).hexdigest()


def _address(batch_id: str) -> str:
    return f"/batches/{batch_id}"


def _why_unfinished(stored: StoredBatch) -> str:
    if stored.ended_at is not None:
        return f"The batch was {stored.status}: it has no answers."
    if stored.rows is None:
        return "The batch is not finished: its upload is not read yet."
    return f"The batch is not finished: {stored.rows_done:,} of {stored.rows:,} rows are done."
