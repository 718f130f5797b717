"""The clock of running processes jumps by a day, forwards and back, while they work; libfaketime sets it."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest

from service.planning.access.keys import make_key
from service.planning.access.scopes import SCOPES
from tests.databases import Databases, migrate_and_seed, opened
from tests.faults.test_database_away import eventually, question
from tests.faults.writers import writing
from tests.servers import COMMAND, RunningService, running, wait_until_ready
from tests.shells.rest.test_card_edits import CARD
from tests.shells.slack.signed import SECRET, TEAM, TOKEN, command_body, signature
from tests.working import ended, jobs_of

pytestmark = [pytest.mark.faketime, pytest.mark.xdist_group("faketime")]

DAY_S = 86_400
# a day forwards, a day back from there and another, and put right again
JUMPS_S = (DAY_S, -DAY_S, 0)
QUOTA = 30
# a busy machine answers late, but not a minute late
LATE_S = 15.0
SEEN_WITHIN_S = 3.0
ONLY_WALL_CLOCK = "FAKETIME_DONT_FAKE_MONOTONIC"


@dataclass(frozen=True, slots=True)
class WallClock:
    """The wall clock of processes, set while they run; their monotonic clock and those of others go on as they do."""

    file: Path

    def set(self, ahead_s: int) -> None:
        """Let it go ahead of the true time, or behind."""
        set_ = self.file.with_suffix(".set")
        set_.write_text(f"{ahead_s:+d}", "ascii")
        set_.replace(self.file)

    @property
    def variables(self) -> dict[str, str]:
        """What a process is started with. Source: libfaketime 0.9.10, README, "Advanced features"."""
        library = os.environ.get("RIGFIT_TEST_FAKETIME") or next(
            map(str, Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")), None
        )
        if library is None:
            raise FileNotFoundError(
                "no libfaketime: script/faketime installs it, -m 'not slow and not faketime' does without"
            )
        return {
            "LD_PRELOAD": library,
            "FAKETIME_TIMESTAMP_FILE": str(self.file),
            "FAKETIME_NO_CACHE": "1",
            ONLY_WALL_CLOCK: "1",
        }


@pytest.fixture(scope="module")
def module_clock(tmp_path_factory: pytest.TempPathFactory) -> WallClock:
    """A clock that is right."""
    clock = WallClock(tmp_path_factory.mktemp("clock") / "time")
    clock.set(0)
    return clock


@pytest.fixture
def clock(module_clock: WallClock) -> Iterator[WallClock]:
    """The same, put right afterwards."""
    yield module_clock
    module_clock.set(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A service on PostgreSQL whose clock can be set, and keys of its own."""

    running: RunningService
    database_url: str
    key: str
    key_of_a_day: str

    def client(self, address: str = "127.0.0.1", key: str | None = None) -> httpx2.Client:
        """A client at an address of this machine."""
        headers = {} if key is None else {"X-API-Key": key}
        transport = httpx2.HTTPTransport(local_address=address)
        return httpx2.Client(base_url=self.running.address, transport=transport, headers=headers, timeout=LATE_S)


@pytest.fixture(scope="module")
def service(postgresql: Databases, module_clock: WallClock) -> Iterator[Service]:
    """One that limits each address."""
    url = postgresql.copy_of("seeded", migrate_and_seed)
    with opened(url) as database:
        key, of_a_day = make_key(database, "ci", SCOPES), make_key(database, "guest", ["cards"], days=1)
    settings = module_clock.variables | {
        "RIGFIT_DATABASE_URL": url,
        "RIGFIT_RATE_LIMIT_PER_ADDRESS": f"{QUOTA}/minute",
    }
    with running(**settings) as started:
        wait_until_ready(started.process, f"{started.address}/readyz")
        yield Service(running=started, database_url=url, key=key.text, key_of_a_day=of_a_day.text)


def shown_day(client: httpx2.Client) -> str:
    """The day that the service dates its answers by."""
    return " ".join(client.get("/healthz").headers["date"].split()[1:4])


def test_requests_are_answered_over_jumps(service: Service, clock: WallClock) -> None:
    """None fails or waits, what is kept is there, and an answer given before is given again to the byte."""
    asked = question()
    with writing(partial(service.client, key=service.key)) as writer, service.client(key=service.key) as client:
        first = client.post("/plan", json=asked).content
        for ahead_s in JUMPS_S:
            shown = shown_day(client)
            clock.set(ahead_s)
            assert eventually(lambda shown=shown: shown_day(client) != shown)  # type: ignore[misc]
            before = len(writer.kept)
            assert eventually(lambda before=before: len(writer.kept) > before + 2)  # type: ignore[misc]
            assert client.post("/plan", json=asked).content == first
        kept, failures, slowest_s = list(writer.kept), list(writer.failures), writer.slowest_s
        assert failures == []
        assert slowest_s < LATE_S
        assert [address for address in kept if client.get(address).status_code != 200] == []


def test_edits_over_jumps_are_judged_by_their_versions(service: Service, clock: WallClock) -> None:
    """An ETag holds on any day, an old one never again, and every change is seen at once in what is planned."""
    with service.client(key=service.key) as client:
        tag = client.post("/gpus", json=CARD | {"slug": "jumping-card", "name": "Jumping card"}).headers["etag"]
        for ahead_s, vram_gib in zip(JUMPS_S, (25, 26, 27), strict=True):
            clock.set(ahead_s)
            changed = CARD | {"slug": "jumping-card", "name": "Jumping card", "vram_gib": vram_gib}
            edited = client.put("/gpus/jumping-card", json=changed, headers={"if-match": tag})
            assert edited.status_code == 200, edited.text
            assert client.put("/gpus/jumping-card", json=changed, headers={"if-match": tag}).status_code == 412
            tag = edited.headers["etag"]
            assert eventually(lambda tag=tag: client.get("/gpus/jumping-card").headers["etag"] == tag, SEEN_WITHIN_S)  # type: ignore[misc]
            assert client.post("/plan", json=question("jumping-card")).status_code == 200


def test_a_rate_neither_opens_nor_locks_out(service: Service, clock: WallClock) -> None:
    """Who asked too much stays refused for seconds, not for a day, and not forgiven; others are answered."""
    unit_s = 60 / QUOTA
    with service.client("127.0.0.21") as greedy:

        def is_answered() -> bool:
            answer = greedy.post("/plan", json=asked)
            assert answer.status_code == 200 or int(answer.headers["retry-after"]) <= 60
            return answer.status_code == 200

        asked, began_s, answered = question(), time.monotonic(), 0
        while is_answered():
            answered += 1
        for at, ahead_s in enumerate(JUMPS_S):
            clock.set(ahead_s)
            answered += sum(is_answered() for _ in range(5))
            with service.client(f"127.0.0.{30 + at}") as other:
                assert other.post("/plan", json=asked).status_code == 200
        assert answered <= QUOTA + (time.monotonic() - began_s) / unit_s + 1
        clock.set(-DAY_S)
        assert eventually(is_answered, LATE_S)


def test_a_key_ends_on_its_day(service: Service, clock: WallClock) -> None:
    """It opens nothing while the clock is past its day, and opens again once that is put right; others always do."""
    with service.client(key=service.key_of_a_day) as guest, service.client(key=service.key) as owner:
        for ahead_s, opens in ((0, True), (2 * DAY_S, False), (-2 * DAY_S, True), (0, True)):
            clock.set(ahead_s)
            assert (guest.delete("/gpus/none").status_code != 401) is opens
            assert owner.delete("/gpus/none").status_code != 401


def test_slacks_requests_are_judged_by_the_clock_and_answered_once(sqlite: Databases, tmp_path: Path) -> None:
    """A replica whose clock is a day ahead or behind refuses them; what another answered is not answered again."""
    # replicas that differ, not one that jumps: slack-bolt sleeps, which libfaketime 0.9.10 refuses where it leaves the
    # monotonic clock as it is
    settings = {
        "RIGFIT_DATABASE_URL": sqlite.copy_of("seeded", migrate_and_seed),
        "RIGFIT_SLACK_SIGNING_SECRET": SECRET,
        "RIGFIT_SLACK_BOT_TOKEN": TOKEN,
        "RIGFIT_SLACK_TEAM_ID": TEAM,
        "RIGFIT_SLACK_API_URL": "http://127.0.0.1:9/api/",
    }
    body, sent_at = command_body("llama-3.1-8b on rtx-3090", "http://127.0.0.1:9/none"), int(time.time())
    headers = {
        "content-type": "application/x-www-form-urlencoded",
        "x-slack-request-timestamp": str(sent_at),
        "x-slack-signature": signature(body, sent_at),
    }
    with ExitStack() as ending:
        replicas = []
        for ahead_s in (0, DAY_S, -DAY_S):
            clock = WallClock(tmp_path / f"time{ahead_s}")
            clock.set(ahead_s)
            variables = {name: value for name, value in clock.variables.items() if name != ONLY_WALL_CLOCK}
            replicas.append(ending.enter_context(running(**variables, **settings)))
        answers = []
        for at in (0, 1, 2, 0):
            wait_until_ready(replicas[at].process, f"{replicas[at].address}/readyz")
            url = f"{replicas[at].address}/slack/commands"
            answers.append(httpx2.post(url, content=body, headers=headers, timeout=LATE_S))
    assert [answer.status_code for answer in answers] == [200, 401, 401, 200]
    assert [bool(answer.text) for answer in (answers[0], answers[-1])] == [True, False]


def test_a_worker_answers_each_row_once_over_jumps(service: Service, clock: WallClock) -> None:
    """Rows are given, and batches kept, by the database's clock: ten days ahead nothing is done anew or deleted."""
    lines = [f"llama-3.1-8b,rtx-3090,{1024 + at}" for at in range(300)]
    table = "\n".join(["model,gpus,context", *lines, ""]).encode()
    environment = os.environ | clock.variables | {"RIGFIT_DATABASE_URL": service.database_url}
    with ExitStack() as ending:
        client = ending.enter_context(service.client(key=service.key))
        jobs = jobs_of(ending.enter_context(opened(service.database_url)))
        worker = ending.enter_context(subprocess.Popen([COMMAND, "worker", "--processes", "1"], env=environment))
        ending.callback(worker.terminate)
        sent = client.post("/plan/batch?queue=true", content=table, headers={"content-type": "text/csv"})
        assert sent.status_code == 202
        address = sent.headers["location"]
        assert eventually(lambda: done(client, address) > 0)
        for ahead_s in (10 * DAY_S, -10 * DAY_S):
            clock.set(ahead_s)
            target = min(done(client, address) + 1, len(lines))
            assert eventually(partial(has_done, client, address, target))
        clock.set(10 * DAY_S)
        batch = ended(jobs, address.rpartition("/")[2])
        assert (batch.status, batch.rows_done) == ("finished", len(lines))
        time.sleep(2)
        result = client.get(f"{address}/result")
        assert result.status_code == 200
        assert result.text.count("\n") == len(lines) + 1


def has_done(client: httpx2.Client, address: str, rows: int) -> bool:
    """Whether so many rows of a batch are answered."""
    return done(client, address) >= rows


def done(client: httpx2.Client, address: str) -> int:
    """Rows of a batch that are answered."""
    rows: int = client.get(address).json()["rows_done"]
    return rows


def test_a_drain_lasts_as_long_as_it_is_said(sqlite: Databases, clock: WallClock) -> None:
    """SIGTERM, and the clock is set forwards and back: requests are taken until the drain is over, then it ends."""
    settings: dict[str, Any] = clock.variables | {"RIGFIT_DATABASE_URL": sqlite.copy_of("seeded", migrate_and_seed)}
    with running(RIGFIT_DRAIN_S="5", RIGFIT_FINISH_S="5", **settings) as started:
        wait_until_ready(started.process, f"{started.address}/readyz")
        started.process.send_signal(signal.SIGTERM)
        began_s = time.monotonic()
        for ahead_s in (DAY_S, -DAY_S):
            clock.set(ahead_s)
            time.sleep(0.8)
            assert httpx2.post(f"{started.address}/plan", json=question(), timeout=LATE_S).status_code == 200
        assert started.process.wait(20) in {0, -signal.SIGTERM}
        assert time.monotonic() - began_s > 4.5
