"""`rigfit worker` as real processes, which are killed like their database in the middle of a large job."""

import csv
import io
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx2
import pytest
from sqlalchemy import func, select
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from service.planning.batch.csv_reading import read_csv
from service.planning.batch.csv_writing import csv_chunks
from service.planning.batch.layout import Layout
from service.planning.batch.limits import Limits
from service.planning.batch.processes import BatchProcesses
from service.planning.batch.rows import answered_rows
from service.planning.local import local_planner
from service.planning.queue.jobs import BatchJobs
from service.store.batch_tables import BatchChunkTable, BatchResultTable
from tests.databases import Databases, address_of, crash, migrate_and_seed, opened, own_server, start
from tests.faults.test_database_away import eventually
from tests.servers import COMMAND, free_port
from tests.shells.serving.test_observed import series
from tests.working import SILENCE, ended, jobs_of, when

ROWS = 10_000
FEW = "ref,model,gpu,context,own\n1,llama-3.2-1b,rtx-3090,4096,kept\n2,nothing,rtx-3090,4096,kept\n"


def large_table() -> bytes:
    """Ten thousand rows of forty questions, one in a hundred of which cannot be answered."""
    models = ("llama-3.2-1b", "llama-3.1-8b", "qwen3-14b", "qwen3-32b")
    lines = [
        f'{at},{models[at % 4]},{"rtx-0" if at % 100 == 7 else "2x rtx-3090"},{1024 * (1 + at % 10)},"own {at}, kept"'
        for at in range(ROWS)
    ]
    return "\n".join(["ref,model,gpu,context,note", *lines, ""]).encode()


def answered_at_once(content: bytes) -> bytes:
    """What `rigfit batch` gives."""
    table, dialect = read_csv(content, Limits(rows=ROWS))
    layout = Layout.of(table)
    processes = BatchProcesses(local_planner(), local_planner, 1)
    rows = answered_rows(table, layout, processes)
    try:
        return b"".join(csv_chunks(layout.header, rows, dialect))
    finally:
        processes.close()


def environment_of(database_url: str) -> dict[str, str]:
    silence_s = str(SILENCE.total_seconds())
    return os.environ | {"RIGFIT_DATABASE_URL": database_url, "RIGFIT_WORKER_SILENCE_S": silence_s}


def running_worker(database_url: str, **settings: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([COMMAND, "worker", "--processes", "1"], env=environment_of(database_url) | settings)


def rigfit(database_url: str, *arguments: str | Path, status: int = 0) -> subprocess.CompletedProcess[str]:
    ran = subprocess.run(
        [COMMAND, *arguments], env=environment_of(database_url), check=False, capture_output=True, text=True
    )
    assert ran.returncode == status, ran.stderr
    return ran


def in_the_middle(jobs: BatchJobs, batch_id: str, rows: int) -> int:
    """Rows that are done, once so many are, and before all are."""
    found = when(jobs, batch_id, lambda batch: batch.rows_done >= rows)
    assert found.status == "running"
    return found.rows_done


def test_a_job_survives_workers_and_database_that_are_killed() -> None:
    """SIGKILL to a worker, then to PostgreSQL: each of ten thousand rows is there once, in order, as without either."""
    content = large_table()
    with ExitStack() as running, own_server() as server:
        url = address_of(server).render_as_string(hide_password=False)
        with opened(url) as database:
            migrate_and_seed(database)
            jobs = jobs_of(database)
            workers = [running.enter_context(running_worker(url)) for _ in range(2)]
            for worker in workers:
                running.callback(worker.kill)
            both = jobs.submit(b"[]", "json")
            when(jobs, both.id, lambda batch: batch.workers == len(workers))
            sent = jobs.submit(content, "csv")
            killed_at = in_the_middle(jobs, sent.id, 1)
            workers[0].kill()
            assert in_the_middle(jobs, sent.id, killed_at + 500) < ROWS
            crash(server)
            with pytest.raises(OperationalError):
                jobs.batch(sent.id)
            start(server)
            found = ended(jobs, sent.id)
            assert (found.status, found.rows, found.rows_done, found.rows_refused) == ("finished", ROWS, ROWS, 100)
            assert found.restarts == 0
            with Session(database) as session:
                kept = session.execute(
                    select(func.count(), func.min(BatchResultTable.row), func.max(BatchResultTable.row))
                ).one()
                assert kept == (ROWS, 0, ROWS - 1)
                assert set(session.scalars(select(BatchChunkTable.done_at.is_(None)))) == {False}
            result = b"".join(jobs.result(sent.id).pieces)
            assert result == answered_at_once(content)
            rows = list(csv.DictReader(io.StringIO(result.decode(), newline="")))
            assert [row["ref"] for row in rows] == [str(at) for at in range(ROWS)]
            assert rows[4711]["note"] == "own 4711, kept"
            workers[1].terminate()
            assert workers[1].wait(30) == 0


@pytest.fixture
def queue_url(postgresql: Databases) -> Iterator[str]:
    """Address of a seeded PostgreSQL database with a worker."""
    url = postgresql.copy_of("seeded", migrate_and_seed)
    with running_worker(url) as worker:
        yield url
        worker.send_signal(signal.SIGINT)
        assert worker.wait(30) == 0


def test_a_file_is_left_to_workers_and_fetched(queue_url: str, tmp_path: Path) -> None:
    """Sent, listed, waited for and written, as it came or as a workbook; and what is ended stays so."""
    source, target, workbook = (tmp_path / name for name in ("in.csv", "out.csv", "out.xlsx"))
    source.write_text(FEW)
    sent = rigfit(queue_url, "batch", source, "--queue").stdout.strip()
    assert "2 rows, 1 of them with a problem" in rigfit(queue_url, "batches", sent, "-o", target).stderr
    first, second = csv.DictReader(io.StringIO(target.read_text()))
    assert (first["own"], first["verdict"], first["problem"]) == ("kept", "fits", "")
    assert second["problem"].startswith("Unknown model: ")
    other = rigfit(queue_url, "batch", source, "--queue", "-o", workbook).stdout.strip()
    assert workbook.read_bytes().startswith(b"PK")
    listed = rigfit(queue_url, "batches").stdout
    assert [line.split()[:2] for line in listed.splitlines()] == [[other, "finished"], [sent, "finished"]]
    assert "finished" in rigfit(queue_url, "batches", sent, "--cancel").stdout


def test_a_worker_counts_what_it_answers(postgresql: Databases) -> None:
    """Prometheus reads at a port of the worker's how many rows it answered, refused and failed at; a port has one."""
    url, port = postgresql.copy_of("seeded", migrate_and_seed), str(free_port())
    with running_worker(url, RIGFIT_WORKER_METRICS_PORT=port) as worker, opened(url) as database:
        jobs = jobs_of(database)
        for content, kind in ((FEW.encode(), "csv"), (b"[", "json")):
            ended(jobs, jobs.submit(content, kind).id)
        counted: dict[tuple[str, ...], float] = {}

        def has_counted() -> bool:
            counted.update(series(httpx2.get(f"http://127.0.0.1:{port}/metrics").text))
            return counted[("rigfit_worker_batches_failed_total",)] == 1

        # it counts once an answer is kept
        assert eventually(has_counted)
        taken = subprocess.run(
            [COMMAND, "worker"], env=environment_of(url) | {"RIGFIT_WORKER_METRICS_PORT": port}, check=False,
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        worker.terminate()
        assert worker.wait(30) == 0
    rows = {outcome: counted["rigfit_worker_rows_total", outcome] for outcome in ("planned", "refused")}
    assert rows == {"planned": 1, "refused": 1}
    assert counted[("rigfit_worker_chunk_duration_seconds_count",)] == 1
    assert counted[("rigfit_worker_rows_in_vain_total",)] == 0
    assert counted[("process_resident_memory_bytes",)] > 0
    assert taken.returncode == 2
    assert f"127.0.0.1:{port} cannot be used" in taken.stderr


def test_what_cannot_be_left_to_workers_is_refused(sqlite: Databases, tmp_path: Path) -> None:
    """Without PostgreSQL there is no queue, for those who send and for those who work, and a batch needs a name."""
    url = sqlite.copy_of("seeded", migrate_and_seed)
    source = tmp_path / "in.csv"
    source.write_text(FEW)
    for arguments, said in (
        (("worker",), "PostgreSQL"),
        (("batch", source, "--queue"), "PostgreSQL"),
        (("batch", tmp_path / "in.pdf", "--queue"), ".jsonl"),
        (("batches", "bat_none"), "no batch"),
    ):
        assert said in rigfit(url, *arguments, status=2).stderr
