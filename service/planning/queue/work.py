"""What a worker does with a job: reads its upload into chunks of rows, and answers them chunk by chunk."""

import hashlib
import time
from functools import partial
from typing import Final

import structlog
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from service.contract.problem import Problem, problem, problem_of
from service.core.problems import PlanProblem
from service.planning.batch.answering import Question
from service.planning.batch.limits import Limits
from service.planning.batch.processes import BatchProcesses
from service.planning.queue.counting import Unobserved, WorkObserver
from service.planning.queue.entries import enqueue_chunks
from service.planning.queue.kinds import Kind
from service.planning.queue.lines import chunks_of, lines_of
from service.planning.queue.remembering import remembered_answers
from service.planning.queue.surviving import surviving_answers
from service.planning.queue.uploads import KINDS
from service.store.batch_chunks import keep_chunks, keep_results, waiting_chunk
from service.store.batches import FINISHED, QUEUED, Turn, batch, begin_rows, end_batch, fail_turn, upload
from service.store.database import transaction

log = structlog.get_logger(__name__)

_ENDED: Final = "Answering this question ended the process that did; the rest of the job was answered without it."


class DamagedUpload(PlanProblem):
    """What was kept of an upload is not what came."""

    slug = "internal-error"


class _NotWanted(Exception):
    """Others did it meanwhile, or the job is not to be done any more: what was begun is undone."""


class BatchWork:
    """Does what the queue's entries say; each may be done twice, of which the second time changes nothing."""

    def __init__(
        self, database: Engine, processes: BatchProcesses, limits: Limits, observer: WorkObserver | None = None
    ) -> None:
        self._database = database
        self._processes = processes
        self._limits = limits
        self._observer: WorkObserver = observer or Unobserved()

    def read(self, turn: Turn) -> None:
        """Read the upload of a job into chunks and have them answered; a job that cannot be read fails."""
        with Session(self._database) as session:
            stored = batch(session, turn.batch_id)
            if stored is None or (stored.restarts, stored.status) != (turn.restarts, QUEUED):
                return
            content, digest = upload(session, turn.batch_id)
        kind = KINDS[stored.kind]
        try:
            _check(content, digest)
            reading = kind.read(content, self._limits)
            with transaction(self._database) as session:
                if not begin_rows(session, turn, reading.row_count, reading.layout):
                    return
                first_rows = []
                for chunk in chunks_of(reading.lines, kind.chunk_rows):
                    keep_chunks(session, turn, [chunk])
                    first_rows.append(chunk.first_row)
                enqueue_chunks(session, turn, stored.rules_version, first_rows)
                if not first_rows:
                    end_batch(session, turn.batch_id, FINISHED)
        except PlanProblem as refused:
            self.fail(turn, problem_of(refused))

    def answer(self, turn: Turn, first_row: int) -> None:
        """Answer a chunk of rows and keep all their results at once, or none."""
        began_s = time.perf_counter()
        with Session(self._database) as session:
            stored, chunk = batch(session, turn.batch_id), waiting_chunk(session, turn, first_row)
        if stored is None or chunk is None:
            return
        kind = KINDS[stored.kind]
        questions = [line.question for line in lines_of(chunk)]
        results = self._results(kind, f"{turn.batch_id} {turn.restarts}", questions)
        refused = sum(map(kind.is_refused, results))
        try:
            self._keep(turn, first_row, results, refused)
            self._observer.answered(len(results), refused, time.perf_counter() - began_s)
        except _NotWanted:
            self._observer.answered_in_vain(len(results))
            log.info("rows were answered in vain", batch=turn.batch_id, first_row=first_row)

    def _keep(self, turn: Turn, first_row: int, results: list[bytes], refused: int) -> None:
        with transaction(self._database) as session:
            if not keep_results(session, turn, first_row, results, refused):
                raise _NotWanted

    def fail(self, turn: Turn, why: Problem) -> None:
        """End a job with a problem."""
        stated = why.model_copy(update={"instance": f"/batches/{turn.batch_id}"})
        log.warning("a batch failed", batch=turn.batch_id, problem=stated.detail)
        with transaction(self._database) as session:
            has_failed = fail_turn(session, turn, stated.model_dump(mode="json", exclude_defaults=True))
        if has_failed:
            self._observer.failed()

    def _results(self, kind: Kind, job: str, questions: list[Question | None]) -> list[bytes]:
        """A result for each row; what is asked twice is answered once."""
        different = list(dict.fromkeys(question for question in questions if question is not None))

        def lost(question: Question) -> bytes:
            log.error("a question ended its process", question=question.text.decode()[:1000])
            return kind.refused(problem("internal-error", _ENDED))

        answer = partial(remembered_answers, job, kind.answer, kind.remembered)
        answers = surviving_answers(self._processes, answer, different, lost)
        known = dict(zip(different, answers, strict=True))
        return [kind.nothing if question is None else known[question] for question in questions]


def _check(content: bytes, digest: str) -> None:
    if hashlib.sha256(content).hexdigest() != digest:
        raise DamagedUpload("The upload was damaged while it was kept: send it again.")
