"""Each row's result once and only once, whoever answers it how often."""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, func, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from service.planning.batch.answering import Answer, Question, Unreachable, answer_cells, answer_documents
from service.planning.batch.processes import BatchProcesses
from service.planning.batch.stored import StoredPlans
from service.planning.catalogues import StoredCatalogues
from service.planning.local import local_planner
from service.planning.planner import Planner
from service.planning.queue.jobs import BatchJobs
from service.settings import Settings
from service.store.batch_chunks import keep_results
from service.store.batch_tables import BatchChunkTable, BatchResultTable
from service.store.batches import Turn, count_rows
from service.store.database import transaction
from tests.planning.queue.test_jobs import answered_at_once, result_of, table_of
from tests.working import work_on


class Together(BatchProcesses):
    """Processes whose answers are all there before the first of them can be kept."""

    def __init__(self, parties: int) -> None:
        super().__init__(local_planner(), local_planner, 1)
        self._all_there = threading.Barrier(parties)

    def answered_there(self, answer: Answer, group: Sequence[Question]) -> Sequence[Any]:
        """Answer in this process, then wait for the others."""
        answers = answer(local_planner(), group)
        self._all_there.wait(timeout=30)
        return answers


def test_of_several_that_answer_a_chunk_at_once_one_keeps_it(queue_database: Engine, jobs: BatchJobs) -> None:
    """Rows are counted and kept once, although four workers bring their answers at the same moment."""
    content = table_of(150)
    turn = Turn(batch_id=jobs.submit(content, "csv").id, restarts=0)
    work = work_on(queue_database, Together(4))
    with ThreadPoolExecutor(4) as workers:
        list(workers.map(lambda _: work.read(turn), range(4)))
        list(workers.map(lambda _: work.answer(turn, 0), range(4)))
    found = jobs.batch(turn.batch_id)
    assert (found.status, found.rows_done, found.rows_refused) == ("running", 100, 2)
    with ThreadPoolExecutor(4) as workers:
        list(workers.map(lambda _: work.answer(turn, 100), range(4)))
    found = jobs.batch(turn.batch_id)
    assert (found.status, found.rows_done, found.rows_refused) == ("finished", 150, 3)
    assert result_of(jobs, turn.batch_id) == answered_at_once(content, Together(1))


def test_a_second_result_of_a_row_is_impossible(
    queue_database: Engine, jobs: BatchJobs, processes: BatchProcesses
) -> None:
    """The database itself refuses it, whatever a program believes."""
    turn = Turn(batch_id=jobs.submit(table_of(2), "csv").id, restarts=0)
    work = work_on(queue_database, processes)
    work.read(turn)
    work.answer(turn, 0)
    again = BatchResultTable(batch_id=turn.batch_id, row=1, result=b"again")
    with pytest.raises(IntegrityError), transaction(queue_database) as session:
        session.add(again)
    with pytest.raises(IntegrityError), transaction(queue_database) as session:
        session.add(BatchChunkTable(batch_id=turn.batch_id, first_row=0, rows=2, content=b""))


def test_results_and_the_end_of_their_chunk_are_one(
    queue_database: Engine, jobs: BatchJobs, processes: BatchProcesses
) -> None:
    """Where one of a chunk's results cannot be kept, no trace of the chunk's end is."""
    turn = Turn(batch_id=jobs.submit(table_of(3), "csv").id, restarts=0)
    work = work_on(queue_database, processes)
    work.read(turn)
    with transaction(queue_database) as session:
        session.add(BatchResultTable(batch_id=turn.batch_id, row=2, result=b"in the way"))
    with pytest.raises(IntegrityError):
        work.answer(turn, 0)
    found = jobs.batch(turn.batch_id)
    assert (found.status, found.rows_done) == ("running", 0)
    with Session(queue_database) as session:
        assert session.scalars(select(BatchChunkTable.done_at)).one() is None
        assert session.scalar(select(func.count()).select_from(BatchResultTable)) == 1


def test_a_chunk_is_kept_whole_or_not_at_all(
    queue_database: Engine, jobs: BatchJobs, processes: BatchProcesses
) -> None:
    """Fewer results than rows are an error of the program, not the end of the chunk."""
    turn = Turn(batch_id=jobs.submit(table_of(3), "csv").id, restarts=0)
    work_on(queue_database, processes).read(turn)
    with pytest.raises(ValueError, match="3 rows"), transaction(queue_database) as session:
        keep_results(session, turn, 0, [b"[]"], 0)
    with transaction(queue_database) as session:
        assert count_rows(session, turn, 0, 0)
        assert not count_rows(session, Turn(batch_id=turn.batch_id, restarts=1), 0, 0)
    assert jobs.batch(turn.batch_id).rows_done == 0


def test_a_database_that_is_gone_is_no_answer() -> None:
    """Questions of a job wait for the database; in a download that is under way the row says it."""
    gone = StoredPlans(Settings(database_url="postgresql+psycopg://nobody@127.0.0.1:9/none"))
    cells = Question("x", b'[{"model":"llama-3.2-1b"},false]')
    document = Question("x", b'{"model":"llama-3.2-1b"}')
    with pytest.raises(Unreachable):
        answer_cells(gone, [cells], patient=True)
    with pytest.raises(Unreachable):
        answer_documents(gone, [document], patient=True)
    away = Planner(StoredCatalogues(create_engine("postgresql+psycopg://nobody@127.0.0.1:9/none"), 1.0))
    unknown = Question("x", b'[{"model":"added by someone"},false]')
    with pytest.raises(Unreachable, match="does not answer"):
        answer_cells(away, [unknown], patient=True)
    assert str(answer_cells(away, [unknown])[0][-1]).startswith("Not ready: ")
    assert "failed on this question" in str(answer_cells(gone, [cells])[0][-1])
    assert b"internal-error" in answer_documents(gone, [document])[0]
