"""POST /plans, GET /plans/{id} and readiness, on each supported database."""

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from service.app import create_app
from service.settings import Settings
from tests.databases import Databases, migrate_and_seed
from tests.shells.rest.test_plan import QUESTION
from tests.shells.rest.test_problems import expect_problem


@pytest.fixture
def stored(databases: Databases) -> Iterator[TestClient]:
    """A client of an application on a fresh seeded database."""
    settings = Settings(database_url=databases.copy_of("seeded", migrate_and_seed))
    with TestClient(create_app(settings)) as client:
        yield client


def test_a_kept_plan_is_given_back_as_it_was_answered(stored: TestClient) -> None:
    """Keeping gives 201 and an address, where the same plan is found."""
    kept = stored.post("/plans", json=QUESTION)
    assert kept.status_code == 201
    assert kept.json() == stored.post("/plan", json=QUESTION).json()
    found = stored.get(kept.headers["location"])
    assert found.status_code == 200
    assert found.json() == kept.json()
    assert list(found.json()) == list(kept.json())


def test_the_same_question_is_kept_once(stored: TestClient) -> None:
    """Keeping again gives the same address."""
    first, second = (stored.post("/plans", json=QUESTION) for _ in range(2))
    assert first.headers["location"] == second.headers["location"]
    assert second.status_code == 201


def test_a_refused_question_is_not_kept(stored: TestClient) -> None:
    """A problem is answered in place of an address."""
    expect_problem(stored.post("/plans", json=QUESTION | {"model": "nothing"}), "unknown-model")


def test_a_plan_that_was_not_kept(stored: TestClient) -> None:
    """An unknown id is not found."""
    expect_problem(stored.get("/plans/pln_0"), "not-found")


def test_a_seeded_database_is_ready(stored: TestClient) -> None:
    """With its tables and catalogues the service is alive and ready."""
    assert stored.get("/healthz").json() == {"status": "ok"}
    assert stored.get("/readyz").json() == {
        "status": "ok",
        "checks": {"database": "ok", "migrations": "ok", "catalogue": "ok"},
    }


def test_an_empty_database_is_not_ready(databases: Databases) -> None:
    """Without tables every question is a problem that says what to do, and the service lives."""
    settings = Settings(database_url=databases.copy_of("empty", lambda _: None))
    with TestClient(create_app(settings)) as client:
        assert client.get("/healthz").status_code == 200
        for answer in (client.get("/readyz"), client.post("/plan", json=QUESTION), client.get("/plans/pln_0")):
            assert "rigfit migrate" in expect_problem(answer, "not-ready").detail


def test_an_empty_catalogue_is_not_ready(databases: Databases) -> None:
    """Without seeded catalogues the service lives, but says that it cannot answer yet."""
    from service.store.migrations import upgrade  # noqa: PLC0415

    settings = Settings(database_url=databases.copy_of("migrated", upgrade))
    with TestClient(create_app(settings)) as client:
        assert client.get("/healthz").status_code == 200
        assert "rigfit migrate" in expect_problem(client.get("/readyz"), "not-ready").detail
