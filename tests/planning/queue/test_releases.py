"""Workers of an older and a newer release beside each other: rules are never mixed in one job."""

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqlalchemy import Engine, func, select
from sqlalchemy.orm import Session

from service.planning.batch.processes import BatchProcesses
from service.planning.engines.vllm.findings import RULES_VERSION as VLLM_RULES
from service.planning.identity import RULES_VERSION as LLAMA_CPP_RULES
from service.planning.queue.jobs import BatchJobs
from service.planning.queue.release import RULES
from service.store.batch_chunks import keep_results
from service.store.batch_tables import BatchResultTable, BatchTable, BatchWorkerTable
from service.store.batch_workers import dismiss_worker
from service.store.batches import Turn
from service.store.database import transaction
from tests.planning.queue.test_jobs import answered_at_once, result_of, table_of
from tests.structure.repository import ROOT
from tests.working import SILENCE, ended, when, work_on, working

NEWER = "the rules of tomorrow"


@contextmanager
def half_done(database: Engine, jobs: BatchJobs, processes: BatchProcesses, content: bytes) -> Iterator[Turn]:
    """A job of this release whose worker kept its first chunk and is gone."""
    turn = Turn(batch_id=jobs.submit(content, "csv").id, restarts=0)
    work = work_on(database, processes)
    work.read(turn)
    work.answer(turn, 0)
    assert jobs.batch(turn.batch_id).rows_done == 100
    yield turn


def test_a_newer_release_begins_anew_what_an_older_left(
    queue_database: Engine, jobs: BatchJobs, processes: BatchProcesses
) -> None:
    """Nothing of the older rules stays, and what its worker brings late is dropped."""
    content = table_of(250)
    with half_done(queue_database, jobs, processes, content) as turn, working(queue_database, processes, NEWER):
        found = ended(jobs, turn.batch_id)
        assert (found.status, found.rules_version, found.restarts) == ("finished", NEWER, 1)
        work_on(queue_database, processes).answer(turn, 100)
        with transaction(queue_database) as session:
            assert not keep_results(session, turn, 200, [b"old"] * 50, 0)
    assert (found.rows_done, found.rows_refused) == (250, 5)
    assert result_of(jobs, turn.batch_id) == answered_at_once(content, processes)


def test_a_release_at_work_keeps_its_jobs(queue_database: Engine, jobs: BatchJobs, processes: BatchProcesses) -> None:
    """While one of its workers is seen, the newer release leaves its jobs alone, however long it takes."""
    with (
        half_done(queue_database, jobs, processes, table_of(150)) as turn,
        working(queue_database, processes, NEWER),
    ):
        with transaction(queue_database) as session:
            session.add(
                BatchWorkerTable(id="older", rules_version=RULES, seen_at=datetime.now(UTC) + timedelta(hours=1))
            )
        time.sleep(3 * SILENCE.total_seconds())
        found = jobs.batch(turn.batch_id)
        assert (found.rows_done, found.rules_version, found.restarts, found.workers) == (100, RULES, 0, 1)
        with transaction(queue_database) as session:
            dismiss_worker(session, "older")
        assert when(jobs, turn.batch_id, lambda batch: batch.ended_at is not None).restarts == 1
    with Session(queue_database) as session:
        assert session.scalar(select(func.count()).select_from(BatchResultTable)) == 150


def test_an_upload_for_a_release_without_workers_is_taken_over(
    queue_database: Engine, jobs: BatchJobs, processes: BatchProcesses
) -> None:
    """A job that nobody of its release began is answered all the same."""
    content = table_of(3)
    sent = jobs.submit(content, "csv")
    with working(queue_database, processes, NEWER):
        assert ended(jobs, sent.id).rules_version == NEWER
    assert result_of(jobs, sent.id) == answered_at_once(content, processes)


def test_the_release_names_every_engines_rules(tmp_path: Path) -> None:
    """What is recorded names the rules of llama.cpp and of vLLM, and moves with any file that makes answers."""
    assert LLAMA_CPP_RULES in RULES
    assert VLLM_RULES in RULES
    assert len(RULES) <= BatchTable.rules_version.type.length
    for name in ("service", "hardware_db"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    assert RULES.endswith(release_of(tmp_path))
    with (tmp_path / "service/core/units.py").open("a") as file:
        file.write("# another build\n")
    assert not RULES.endswith(release_of(tmp_path))


def release_of(checkout: Path) -> str:
    """The end of what is recorded by another checkout."""
    ask = "from service.planning.queue.release import RULES; print(RULES)"
    ran = subprocess.run(
        [sys.executable, "-c", ask], cwd=checkout, env={"PYTHONPATH": str(checkout)}, check=True,
        capture_output=True, text=True,
    )  # fmt: skip
    return ran.stdout.strip().rpartition("; ")[2]
