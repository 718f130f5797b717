"""GET /audit: who may see it, what of it, and that measurements and models are in it."""

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from service.settings import Settings
from tests.databases import Databases, migrate_and_seed
from tests.measurements.printed import as_markdown, row
from tests.remote.llama import HEADER
from tests.shells.rest.local_client import local_client
from tests.shells.rest.test_problems import expect_problem


@pytest.fixture
def client(databases: Databases) -> Iterator[TestClient]:
    """A client of this machine, on a database of one test's own without keys."""
    url = databases.copy_of("seeded", migrate_and_seed)
    with local_client(Settings(database_url=url, model_hosts=())) as client:
        yield client


def test_measurements_are_in_the_trail_once(client: TestClient) -> None:
    """Each figure with what became of it; the same text again adds nothing."""
    text, headers = as_markdown([row()], "ngl"), {"content-type": "text/plain"}
    sent, again = (client.post("/measurements?gpu=rtx-3090&source=lab", content=text, headers=headers) for _ in "ab")
    assert (sent.status_code, again.status_code) == (201, 200)
    (measured,) = sent.json()["measurements"]
    (change,) = client.get(f"/audit?kind=measurement&entity={measured['id']}").json()["changes"]
    assert (change["action"], change["actor"], change["before"]) == ("create", "anonymous", None)
    assert {name: change["after"][name] for name in ("value", "status", "source")} == {
        name: measured[name] for name in ("value", "status", "source")
    }


def test_models_are_in_the_trail_with_their_aliases(client: TestClient) -> None:
    """Everything that stands beside the content, which the id is the digest of."""
    model = client.post("/models", files={"file": ("house.gguf", HEADER)}, data={"alias": "house"}).json()
    (change,) = client.get(f"/audit?kind=model&entity={model['id']}").json()["changes"]
    assert (change["after"]["name"], change["after"]["quant"]) == (model["name"], model["quant"])
    (alias,) = client.get("/audit?kind=alias&entity=house&actor=anonymous").json()["changes"]
    assert alias["after"] == {"model": model["id"]}
    assert client.get("/audit?actor=somebody").json() == {"changes": [], "next_before_id": None}


def test_what_cannot_be_asked_of_it(client: TestClient) -> None:
    """A filter that means nothing is refused and not overlooked."""
    for query in ("kind=plan", "limit=0", "limit=1001", "before_id=0", "entity=", "who=ci"):
        expect_problem(client.get(f"/audit?{query}"), "invalid-request")


def test_it_is_not_for_everyone(sqlite: Databases) -> None:
    """Reading it needs its scope, also where everything else is open."""
    settings = Settings(
        database_url=sqlite.copy_of("seeded", migrate_and_seed), model_hosts=(), writes_without_key="never"
    )
    with local_client(settings) as client:
        assert "scope audit" in expect_problem(client.get("/audit"), "unauthorized").detail
