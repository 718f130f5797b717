"""What was seen is not new, for as long as it may be sent again, whichever process it comes to."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Engine, create_engine, func, select
from sqlalchemy.orm import Session
from starlette.testclient import TestClient

from service.app import create_app
from service.shells.slack.once import REMEMBERED, Seen
from service.store.tables import SlackMarkTable
from tests.databases import Databases, migrate_and_seed
from tests.shells.slack.conftest import slack_settings
from tests.shells.slack.signed import FakeSlack, event_body, send_event
from tests.shells.slack.test_endpoints import nothing_came


def test_marks_are_new_once(database: Engine) -> None:
    """Any mark that was seen makes a request an old one, for another process as well."""
    seen, elsewhere = Seen(lambda: database), Seen(lambda: database)
    assert seen.is_new(["event 1", "signature a"])
    assert not seen.is_new(["event 1", "signature b"])
    assert not elsewhere.is_new(["signature b"])
    assert elsewhere.is_new(["event 2"])
    assert not seen.is_new(["event 2"])


def test_marks_are_forgotten(database: Engine) -> None:
    """A mark is new again after two hours, and what expired does not stay in the database."""
    now = datetime(2026, 11, 30, tzinfo=UTC)
    seen = Seen(lambda: database, clock=lambda: now)
    assert seen.is_new(["first"])
    now += REMEMBERED
    assert not seen.is_new(["first"])
    now += timedelta(seconds=1)
    assert seen.is_new(["first", "second"])
    now += 2 * REMEMBERED
    assert seen.is_new(["third"])
    with Session(database) as session:
        assert session.scalar(select(func.count()).select_from(SlackMarkTable)) == 1


def test_of_many_at_once_one_is_new(database: Engine) -> None:
    """However many processes get a request at the same moment, one of them answers it."""
    processes = [Seen(lambda: database) for _ in range(8)]
    with ThreadPoolExecutor(len(processes)) as threads:
        for number in range(10):
            marks = [f"event {number}", f"signature {number}"]
            answers = list(threads.map(lambda seen, marks=marks: seen.is_new(marks), processes))
            assert answers.count(True) == 1


def test_requests_are_answered_without_a_database() -> None:
    """A database that does not answer does not make the service silent."""
    gone = create_engine("postgresql+psycopg://nobody@127.0.0.1:9/none")
    assert Seen(lambda: gone).is_new(["event 1"])


@pytest.fixture
def two_apps(postgresql: Databases, slack_server: FakeSlack) -> Iterator[list[TestClient]]:
    """Two running applications that share a PostgreSQL."""
    url = postgresql.copy_of("seeded", migrate_and_seed)
    with ExitStack() as running:
        yield [running.enter_context(TestClient(create_app(slack_settings(url, slack_server)))) for _ in range(2)]


def test_what_two_processes_get_is_answered_by_one(two_apps: list[TestClient], slack: FakeSlack) -> None:
    """An event that comes to both at once, and its retry, are answered with one message."""
    body = event_body("<@UBOT> llama-3.2-1b on 3090", "EvShared")
    with ThreadPoolExecutor(2) as threads:
        responses = list(threads.map(lambda app: send_event(app, body), two_apps))
    responses += [send_event(app, body, {"X-Slack-Retry-Num": "1"}) for app in two_apps]
    assert [response.status_code for response in responses] == [200] * 4
    assert slack.next()[0] == "/api/chat.postMessage"
    assert nothing_came(slack)
