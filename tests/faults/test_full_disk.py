"""A disk that takes no more, under SQLite: nothing is half kept, and it goes on where there is room again."""

import resource
from pathlib import Path

import httpx2
from sqlalchemy import make_url

from tests.databases import Databases, migrate_and_seed
from tests.faults.test_database_away import question
from tests.servers import running, wait_until_ready
from tests.shells.rest.test_problems import expect_problem

# less than the first page of SQLite's log takes, with its headers
ROOM_BYTES = 4096


def test_a_full_disk_loses_nothing(sqlite: Databases, tmp_path: Path) -> None:
    """While no file may grow, plans are answered and writes refused with 503; then all goes on, with all that was."""
    url = sqlite.copy_of("seeded", migrate_and_seed)
    with running(tmp_path / "log", RIGFIT_DATABASE_URL=url) as service:
        wait_until_ready(service.process, f"{service.address}/readyz")
        with httpx2.Client(base_url=service.address, timeout=20) as client:
            kept = [client.post("/plans", json=question()).headers["location"] for _ in range(3)]
            _, hard = resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE)
            # the log of the process is a file too, and cannot be written either
            resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, (ROOM_BYTES, hard))
            for _ in range(3):
                refused = client.post("/plans", json=question())
                assert "nothing was kept" in expect_problem(refused, "not-ready").detail
                assert int(refused.headers["retry-after"]) > 0
                assert client.post("/plan", json=question()).status_code == 200
            resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, (hard, hard))
            kept += [client.post("/plans", json=question()).headers["location"] for _ in range(3)]
            assert [client.get(address).status_code for address in kept] == [200] * 6
            assert Path(make_url(url).database or "").stat().st_size > ROOM_BYTES
            assert client.get("/readyz").status_code == 200
