"""Rates of several processes on one real PostgreSQL."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from sqlalchemy import Engine, Interval, func, literal, select, update
from sqlalchemy.orm import Session

from service.planning.access import shared_rates
from service.planning.access.rate import Rate, Throttle
from service.planning.access.shared_rates import SharedRates
from service.store.database import transaction
from service.store.migrations import upgrade
from service.store.rate_uses import forget_uses
from service.store.tables import RateUseTable
from tests.databases import Databases, opened


@pytest.fixture
def database(postgresql: Databases) -> Iterator[Engine]:
    """A migrated PostgreSQL database."""
    with opened(postgresql.copy_of("migrated", upgrade)) as database:
        yield database


class Process:
    """What one process knows of a rate of 60 units an hour."""

    def __init__(self, database: Engine) -> None:
        self.throttle = Throttle(Rate.of("60/hour"))
        self.shared = SharedRates(database, {"key": self.throttle})
        self.exchange()

    def exchange(self) -> bool:
        """Tell and be told; whether that was possible."""
        reports = self.shared.reports()
        learned = self.shared.exchanged(reports)
        self.shared.settle(reports, learned)
        return learned is not None

    def remaining(self, caller: str = "a") -> int:
        """What a caller has left after one unit more."""
        return self.throttle.charge(caller, 1).remaining


def test_processes_add_up_what_they_let_through(database: Engine) -> None:
    """One that never saw a caller refuses it once the others have given it all, and says how long it is to wait."""
    one, other = Process(database), Process(database)
    for process in (one, other):
        process.throttle.charge("a", 25)
    for process in (one, other, one):
        process.exchange()
    assert (one.remaining(), other.remaining()) == (9, 9)
    for process in (one, other, one):
        process.exchange()
    assert one.throttle.charge("a", 9).wait_s == pytest.approx(60, abs=5)
    assert one.throttle.charge("a", 8).wait_s == 0
    one.exchange()
    late = Process(database)
    late.exchange()
    assert late.throttle.charge("a", 1).wait_s == pytest.approx(60, abs=5)
    assert late.remaining("b") == 59


def test_what_is_told_is_counted_once(database: Engine) -> None:
    """However often processes exchange."""
    one, other = Process(database), Process(database)
    one.throttle.charge("a", 10)
    for process in (one, other, one, other, one):
        process.exchange()
    assert (one.remaining(), other.remaining()) == (49, 49)


def test_what_passed_beyond_the_rate_is_worked_off(database: Engine) -> None:
    """What two processes gave at the same moment, a whole rate each, is given once in the two hours."""
    one, other = Process(database), Process(database)
    for process in (one, other):
        process.throttle.charge("a", 60)
    for process in (one, other, one):
        process.exchange()
    for process in (one, other):
        assert process.throttle.charge("a", 1).wait_s == pytest.approx(3660, abs=5)


def test_a_clock_of_the_database_that_was_set_back_keeps_nobody_out(database: Engine) -> None:
    """What is dated ahead of it does not count, and is deleted or written anew."""
    one, other = Process(database), Process(database)
    one.throttle.charge("a", 60)
    one.exchange()
    with transaction(database) as session:
        years = literal(timedelta(days=3650), Interval())
        session.execute(
            update(RateUseTable).values(until=RateUseTable.until + years, changed_at=RateUseTable.changed_at + years)
        )
    other.exchange()
    assert other.remaining() == 59
    for process in (other, one):
        process.exchange()
    assert one.remaining() == 58


def test_what_is_worked_off_is_deleted(database: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """No row stays longer than it means something."""
    monkeypatch.setattr(shared_rates, "_FORGOTTEN_EVERY_S", 0.0)
    process = Process(database)
    process.throttle.charge("a", 60)
    process.throttle.charge("b", 60)
    process.exchange()
    with transaction(database) as session:
        session.execute(update(RateUseTable).where(RateUseTable.caller == "a").values(until=func.now()))
    process.exchange()
    with transaction(database) as session:
        forget_uses(session)
    with Session(database) as session:
        assert list(session.scalars(select(RateUseTable.caller))) == ["b"]


def test_without_its_tables_a_process_counts_alone(database: Engine) -> None:
    """A database that fails is told what passed once it answers again."""
    one, other = Process(database), Process(database)
    one.throttle.charge("a", 10)
    with database.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE rate_uses RENAME TO away")
    assert not one.exchange()
    assert one.remaining() == 49
    with database.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE away RENAME TO rate_uses")
    assert one.exchange()
    other.exchange()
    assert other.remaining() == 48
