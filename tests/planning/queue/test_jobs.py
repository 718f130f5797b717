"""Jobs from their upload to their answers, done by real workers."""

import csv
import io
import json
from datetime import date, timedelta
from itertools import pairwise
from typing import Any

import pytest
import xlsxwriter
from python_calamine import CalamineWorkbook
from sqlalchemy import Engine, func, select, update
from sqlalchemy.orm import Session

from service.planning.batch.csv_reading import read_csv
from service.planning.batch.csv_writing import csv_chunks
from service.planning.batch.layout import Layout
from service.planning.batch.limits import Limits
from service.planning.batch.processes import BatchProcesses
from service.planning.batch.rows import answered_rows
from service.planning.queue.jobs import BatchJobs, NoSuchBatch, TooManyBatches, Unfinished
from service.planning.queue.release import RULES
from service.store.batch_tables import BatchChunkTable, BatchResultTable, BatchTable, BatchUploadTable
from tests.working import ended, jobs_of, when, working

TABLE = (
    "Ref;Modell;model;gpu;context;note\r\n"
    "1;x;llama-3.2-1b;rtx-3090;4.096;first\r\n"
    "2;x;llama-3.2-1b;rtx-3091;8k;no such card\r\n"
    ";;;;;\r\n"
    '4;x;llama-3.2-1b;2x rtx-3090;8k;"two\r\nlines"\r\n'
)


def table_of(rows: int) -> bytes:
    """A table of few different questions, every 50th of which cannot be answered."""
    lines = [
        f"{at},llama-3.2-1b,{'rtx-0' if at % 50 == 7 else 'rtx-3090'},{1024 * (1 + at % 4)},note {at}"
        for at in range(rows)
    ]
    return "\n".join(["ref,model,gpu,context,note", *lines, ""]).encode()


def answered_at_once(content: bytes, processes: BatchProcesses) -> bytes:
    """What POST /plan/batch gives."""
    table, dialect = read_csv(content, Limits(rows=50_000))
    layout = Layout.of(table)
    return b"".join(csv_chunks(layout.header, answered_rows(table, layout, processes), dialect))


def result_of(jobs: BatchJobs, batch_id: str) -> bytes:
    return b"".join(jobs.result(batch_id).pieces)


def sheet_rows(content: bytes) -> list[list[Any]]:
    return CalamineWorkbook.from_filelike(io.BytesIO(content)).get_sheet_by_index(0).to_python()


def test_two_workers_share_a_job(queue_database: Engine, jobs: BatchJobs, processes: BatchProcesses) -> None:
    """Together they give, byte for byte, what is given at once: rows in order, own columns kept, problems in theirs."""
    content = table_of(1030)
    sent = jobs.submit(content, "csv")
    assert (sent.status, sent.rows, sent.workers, sent.result) == ("queued", None, 0, None)
    with working(queue_database, processes), working(queue_database, processes):
        ended(jobs, sent.id)
        found = when(jobs, sent.id, lambda batch: batch.workers == 2)
    assert (found.status, found.rows, found.rows_done, found.rows_refused) == ("finished", 1030, 1030, 21)
    assert found.rules_version == RULES
    assert found.result == f"/batches/{sent.id}/result"
    assert result_of(jobs, sent.id) == answered_at_once(content, processes)
    with Session(queue_database) as session:
        assert session.scalar(select(func.count()).select_from(BatchResultTable)) == 1030
        assert len(session.scalars(select(BatchChunkTable.first_row)).all()) == 11
    assert jobs.batch(sent.id).workers == 0


def test_every_kind_comes_back_as_it_came(queue_database: Engine, jobs: BatchJobs, processes: BatchProcesses) -> None:
    """CSV of other countries, workbooks with their dates, lists and lines, and a table as the other kind of table."""
    file, day_of = io.BytesIO(), date(2025, 12, 9)
    with xlsxwriter.Workbook(file) as workbook:
        sheet = workbook.add_worksheet()
        shown = workbook.add_format({"num_format": "yyyy-mm-dd"})
        sheet.write_row(0, 0, ["model", "gpu", "since"])
        sheet.write_row(1, 0, ["llama-3.2-1b", "rtx-3090"])
        sheet.write_datetime(1, 2, day_of, shown)
    good, bad = {"model": "llama-3.2-1b"}, {"model": "nothing"}
    lines = "\n".join([json.dumps(good), "{", "", json.dumps(bad)])
    uploads = {
        "csv": jobs.submit(TABLE.encode(), "csv"),
        "xlsx": jobs.submit(file.getvalue(), "xlsx"),
        "json": jobs.submit(json.dumps([bad, good]).encode(), "json"),
        "jsonl": jobs.submit(lines.encode(), "jsonl"),
        "empty": jobs.submit(b"[]", "json"),
        "other": jobs.submit(TABLE.encode(), "csv", "xlsx"),
    }
    with working(queue_database, processes):
        found = {name: ended(jobs, sent.id) for name, sent in uploads.items()}
    assert {batch.status for batch in found.values()} == {"finished"}
    results = {name: result_of(jobs, sent.id) for name, sent in uploads.items()}
    assert results["csv"] == answered_at_once(TABLE.encode(), processes)
    header, row = sheet_rows(results["xlsx"])
    assert (header[:3], row[:3]) == (["model", "gpu", "since"], ["llama-3.2-1b", "rtx-3090", day_of])
    assert row[header.index("verdict")] == "fits"
    refused, answered = json.loads(results["json"])
    assert refused["problem"]["instance"] == f"/batches/{uploads['json'].id}#/0"
    assert answered["plan"]["model"]["name"] == "llama-3.2-1b"
    kinds = [list(json.loads(line)) for line in results["jsonl"].splitlines()]
    assert kinds == [["plan"], ["problem"], ["problem"]]
    assert json.loads(results["empty"]) == []
    other = sheet_rows(results["other"])
    text = list(csv.reader(io.StringIO(results["csv"].decode(), newline=""), delimiter=";"))
    assert other[0] == text[0]
    assert [cells[0] for cells in other[1:]] == ["1", "2", "", "4"]


@pytest.mark.parametrize(
    ("content", "kind", "said"),
    [
        (b"PK\x03\x04 no more", "xlsx", "no workbook"),
        (b"ref,gpu\n1,rtx-3090\n", "csv", "No column is called model"),
        (b"{", "json", "not JSON"),
        (b'{"model": "\xff"}', "jsonl", "UTF-8"),
    ],
)
def test_an_upload_that_cannot_be_read_fails_with_a_problem(
    queue_database: Engine, jobs: BatchJobs, processes: BatchProcesses, content: bytes, kind: str, said: str
) -> None:
    """The job ends, says what is wrong with what was sent, and has no result."""
    sent = jobs.submit(content, kind)
    with working(queue_database, processes):
        found = ended(jobs, sent.id)
    assert found.status == "failed"
    assert found.problem is not None
    assert (found.problem.type, found.problem.instance) == ("/problems/invalid-request", f"/batches/{sent.id}")
    assert said in found.problem.detail
    with pytest.raises(Unfinished, match="failed"):
        jobs.result(sent.id)


def test_an_upload_that_was_damaged_while_it_waited_fails(
    queue_database: Engine, jobs: BatchJobs, processes: BatchProcesses
) -> None:
    """What is not what came is not answered, although it could be read."""
    sent = jobs.submit(table_of(3), "csv")
    with Session(queue_database) as session, session.begin():
        session.execute(update(BatchUploadTable).values(content=table_of(2)))
    with working(queue_database, processes):
        found = ended(jobs, sent.id)
    assert found.problem is not None
    assert (found.status, found.problem.status) == ("failed", 500)
    assert "damaged" in found.problem.detail


def test_cancelling_stops_within_a_chunk(queue_database: Engine, jobs: BatchJobs, processes: BatchProcesses) -> None:
    """After it no row is kept, what waits in the queue does nothing, and the worker goes on with other jobs."""
    sent = jobs.submit(table_of(20_000), "csv")
    with working(queue_database, processes):
        when(jobs, sent.id, lambda batch: batch.rows_done > 0)
        cancelled = jobs.cancel(sent.id)
        after = jobs.submit(table_of(3), "csv")
        assert ended(jobs, after.id).status == "finished"
    found = jobs.batch(sent.id)
    assert (cancelled.status, found.status) == ("cancelled", "cancelled")
    assert 0 < found.rows_done == cancelled.rows_done < 20_000
    with Session(queue_database) as session:
        of_it = select(func.count()).select_from(BatchResultTable).where(BatchResultTable.batch_id == sent.id)
        assert session.scalar(of_it) == cancelled.rows_done
    with pytest.raises(Unfinished, match="cancelled"):
        jobs.result(sent.id)
    assert jobs.cancel(after.id).status == "finished"


def test_a_job_that_waits_says_so(jobs: BatchJobs) -> None:
    """Without a worker a job waits, can be cancelled before it began, and an unknown one is none."""
    sent = jobs.submit(b"[]", "json")
    assert (sent.status, sent.workers) == ("queued", 0)
    with pytest.raises(Unfinished, match="not read yet"):
        jobs.result(sent.id)
    assert jobs.cancel(sent.id).status == "cancelled"
    for ask in (jobs.batch, jobs.cancel, jobs.result):
        with pytest.raises(NoSuchBatch):
            ask("bat_none")


def test_no_more_jobs_wait_than_may(queue_database: Engine) -> None:
    """One more is refused until another ends; the latest are listed first."""
    jobs = jobs_of(queue_database, most_unfinished=2)
    first, second = jobs.submit(b"[]", "json"), jobs.submit(b"[]", "json")
    with pytest.raises(TooManyBatches):
        jobs.submit(b"[]", "json")
    jobs.cancel(first.id)
    third = jobs.submit(b"[]", "json")
    latest = jobs.latest(10)
    assert {batch.id for batch in latest} == {first.id, second.id, third.id}
    assert all(newer.created_at >= older.created_at for newer, older in pairwise(latest))


def test_old_jobs_are_deleted_with_all_that_is_theirs(
    queue_database: Engine, jobs: BatchJobs, processes: BatchProcesses
) -> None:
    """What ended long ago is gone, what ended lately or waits is not."""
    old, waiting = jobs.submit(table_of(5), "csv"), jobs.submit(b"[]", "json")
    with working(queue_database, processes):
        ended(jobs, old.id)
    new = jobs.submit(b"[]", "json")
    jobs.cancel(new.id)
    with Session(queue_database) as session, session.begin():
        aged = update(BatchTable).where(BatchTable.id == old.id)
        session.execute(aged.values(ended_at=func.now() - timedelta(hours=2)))
        session.execute(update(BatchTable).where(BatchTable.id == waiting.id).values(status="queued", ended_at=None))
    with working(queue_database, processes, rules_version="another release", kept=timedelta(hours=1)):
        when(jobs, new.id, lambda _: old.id not in {batch.id for batch in jobs.latest(10)})
    assert {batch.id for batch in jobs.latest(10)} == {waiting.id, new.id}
    with Session(queue_database) as session:
        for table in (BatchUploadTable, BatchChunkTable, BatchResultTable):
            assert old.id not in session.scalars(select(table.batch_id)).all()
