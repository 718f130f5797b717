"""A clock that is set forwards and back: what is measured does not follow it, what ends on a day ends on that day."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqlalchemy import Engine, func, select
from sqlalchemy.orm import Session

from service.planning.access.keys import listed_keys, make_key
from service.planning.access.ring import KeyRing
from service.shells.slack.once import Seen
from service.store.tables import SlackMarkTable
from tests.structure.repository import ROOT, python_files

_WALL_CLOCK = re.compile(
    r"\btime\.time(?:_ns)?\(|\b(?:datetime|date)\.(?:now|utcnow|today)\(|\bfunc\.(?:now|clock_timestamp)\("
)
# where a day, or a moment that people read, is meant; or an age that several machines judge, by the database's clock
DATED = {
    "service/planning/access/keys.py",
    "service/planning/access/ring.py",
    "service/planning/kept_graphs/writing.py",
    "service/shells/cli/keys.py",
    "service/shells/serving/access_log.py",
    "service/shells/serving/child_spans.py",
    "service/shells/slack/once.py",
    "service/store/batch_chunks.py",
    "service/store/batch_tables.py",
    "service/store/batch_workers.py",
    "service/store/batches.py",
    "service/store/rate_uses.py",
    "service/store/tables.py",
}
YEARS = timedelta(days=3650)


def test_nothing_is_timed_by_a_clock_that_can_be_set() -> None:
    """Refreshes, retries and limits are timed by the monotonic clock; the wall clock is read where a date is meant."""
    reading = {str(path) for path in python_files("service") if _WALL_CLOCK.search((ROOT / path).read_text("utf-8"))}
    assert reading == DATED
    assert all(Path(ROOT / name).is_file() for name in DATED)


class Clock:
    """A wall clock that is set as the test wants."""

    def __init__(self) -> None:
        self.now = datetime.now(UTC)

    def __call__(self) -> datetime:
        """The time it shows."""
        return self.now


def test_a_key_outlives_a_clock_that_is_set_back(database: Engine) -> None:
    """It opens nothing while the clock is past its day, opens again once that is put right, and its uses are noted."""
    clock, made = Clock(), make_key(database, "ci", ["models"], days=1)
    ring = KeyRing(database, fresh_s=0, now=clock)
    for jump, opens in ((timedelta(0), True), (YEARS, False), (-YEARS, True), (-YEARS, True), (YEARS, True)):
        clock.now += jump
        ring.refresh()
        assert (ring.holder(made.text) is not None) is opens
        ring.refresh()
    (key,) = listed_keys(database)
    assert key.last_used_at is not None


def test_requests_are_answered_once_over_jumps(database: Engine) -> None:
    """What was seen stays seen when the clock is set back, and marks of the wrong time do not stay for years."""
    clock = Clock()
    seen = Seen(lambda: database, clock)
    assert seen.is_new(["first"])
    clock.now -= YEARS
    assert not seen.is_new(["first"])
    clock.now += 2 * YEARS
    assert seen.is_new(["second"])
    clock.now -= YEARS
    assert seen.is_new(["third"])
    clock.now += timedelta(hours=3)
    assert seen.is_new(["fourth"])
    with Session(database) as session:
        marks = session.scalar(select(func.count()).select_from(SlackMarkTable))
    # the second is dated years ahead: the same clock forgot the first and the third
    assert marks == 2
