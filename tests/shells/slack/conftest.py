"""The application with its Slack app, in process, against a server that stands for Slack's."""

from collections.abc import Iterator

import pytest
from pydantic import SecretStr
from starlette.testclient import TestClient

from service.app import create_app
from service.settings import Settings
from tests.databases import Databases, migrate_and_seed
from tests.shells.slack.signed import SECRET, TEAM, TOKEN, FakeSlack, fake_slack


@pytest.fixture(scope="session")
def slack_server() -> Iterator[FakeSlack]:
    """The server that stands for Slack's."""
    with fake_slack() as slack:
        yield slack


@pytest.fixture
def slack(slack_server: FakeSlack) -> FakeSlack:
    """The same, with nothing received yet."""
    while not slack_server.received.empty():
        slack_server.received.get()
    return slack_server


def slack_settings(database_url: str, slack_server: FakeSlack) -> Settings:
    """Settings of an installation that answers in Slack."""
    return Settings(
        database_url=database_url,
        model_hosts=(),
        private_model_hosts=(slack_server.address,),
        public_url="https://rigfit.example",
        slack_signing_secret=SecretStr(SECRET),
        slack_bot_token=SecretStr(TOKEN),
        slack_team_id=TEAM,
        slack_api_url=f"{slack_server.address}/api/",
    )


@pytest.fixture(scope="session")
def client(sqlite: Databases, slack_server: FakeSlack) -> Iterator[TestClient]:
    """A client of the application."""
    settings = slack_settings(sqlite.copy_of("seeded", migrate_and_seed), slack_server)
    with TestClient(create_app(settings)) as client:
        yield client
