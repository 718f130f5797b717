"""`rigfit batch --queue` and `rigfit batches`: batches that workers answer, sent, followed and fetched."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from service.contract.batches import Batch
from service.core.problems import InvalidRequest
from service.planning.queue.jobs import BatchJobs, Unfinished
from service.planning.queue.uploads import KINDS
from service.settings import settings
from service.shells.cli.batch import write_whole
from service.store.database import open_database

_LISTED: Final = 20
_TABLES: Final = ("csv", "xlsx")
_LOOK_S: Final = 0.5


def submit(source: Path, target: Path | None) -> None:
    """Leave a file to workers and print the batch's id; with a target wait for its answers. Raises PlanProblem."""
    kind = source.suffix.lower().removeprefix(".")
    if kind not in KINDS:
        raise InvalidRequest(f"{source}: a batch is a file that ends in {' or '.join(f'.{name}' for name in KINDS)}.")
    try:
        content = source.read_bytes()
    except OSError as error:
        raise InvalidRequest(f"{source} cannot be read: {error.strerror}.") from None
    most_bytes = settings().max_batch_bytes
    if len(content) > most_bytes:
        raise InvalidRequest(f"{source} has more than {most_bytes:,} bytes, the most that is read: send parts.")
    with _jobs() as jobs:
        sent = jobs.submit(content, kind, _form(kind, target))
        sys.stdout.write(f"{sent.id}\n")
        sys.stdout.flush()
        if target is not None:
            _fetch(jobs, sent.id, target)


def follow(batch_id: str, target: Path | None, *, cancel: bool) -> None:
    """Show one batch, stop it, or wait for its answers and write them; raises PlanProblem."""
    with _jobs() as jobs:
        if cancel:
            _print([jobs.cancel(batch_id)])
        elif target is not None:
            _fetch(jobs, batch_id, target)
        else:
            _print([jobs.batch(batch_id)])


def list_batches() -> None:
    """Show the latest batches."""
    with _jobs() as jobs:
        latest = jobs.latest(_LISTED)
    if latest:
        _print(latest)
    else:
        sys.stdout.write("there are no batches\n")


@contextmanager
def _jobs() -> Iterator[BatchJobs]:
    chosen = settings()
    database = open_database(chosen.database_url, connections=1)
    try:
        yield BatchJobs.of(database, chosen)
    finally:
        database.dispose()


def _form(kind: str, target: Path | None) -> str | None:
    """What a table is given back as: what the target's name says, or as it came."""
    named = "" if target is None else target.suffix.lower().removeprefix(".")
    return named if kind in _TABLES and named in _TABLES else None


def _fetch(jobs: BatchJobs, batch_id: str, target: Path) -> None:
    """Wait with a bar until a batch ends, then write its answers."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("rows", total=None)
        while (found := jobs.batch(batch_id)).ended_at is None:
            waits = "" if found.workers else " (no worker is there: start rigfit worker)"
            bar.update(task, completed=found.rows_done, total=found.rows, description=f"rows{waits}")
            time.sleep(_LOOK_S)
    if found.problem is not None:
        raise Unfinished(f"The batch failed: {found.problem.title}: {found.problem.detail}")
    result = jobs.result(batch_id)
    expected = Path(result.file_name).suffix
    if target.suffix.lower() != expected:
        raise InvalidRequest(f"{target}: the answers are a file that ends in {expected}.")
    write_whole(target, result.pieces)
    refused = f", {found.rows_refused:,} of them with a problem" if found.rows_refused else ""
    sys.stderr.write(f"{target}: {found.rows_done:,} rows{refused}\n")


def _print(batches: list[Batch]) -> None:
    for batch in batches:
        rows = "?" if batch.rows is None else f"{batch.rows_done:,} of {batch.rows:,}"
        sys.stdout.write(
            f"{batch.id}  {batch.status:9}  {rows:>16} rows  {batch.rows_refused:,} problems  {batch.workers} workers\n"
        )
        if batch.problem is not None:
            sys.stdout.write(f"  {batch.problem.title}: {batch.problem.detail}\n")
