"""PATCH and DELETE of models."""

from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from service.settings import Settings
from tests.databases import Databases, migrate_and_seed
from tests.remote.llama import HEADER
from tests.shells.rest.local_client import local_client
from tests.shells.rest.test_problems import expect_problem

BUILTIN = "/models/llama-3.1-8b:Q4_K_M"


@pytest.fixture
def client(databases: Databases) -> Iterator[TestClient]:
    """A client of this machine, on a database of one test's own without keys."""
    url = databases.copy_of("seeded", migrate_and_seed)
    with local_client(Settings(database_url=url, model_hosts=())) as client:
        yield client


@pytest.fixture
def house(client: TestClient) -> str:
    """Address of a model that was brought in."""
    answer = client.post("/models", files={"file": ("house.gguf", HEADER)}, data={"alias": "house"})
    assert answer.status_code == 201, answer.text
    return str(answer.headers["location"])


def tag_of(client: TestClient, address: str) -> dict[str, str]:
    return {"if-match": client.get(address).headers["etag"]}


def patch(client: TestClient, address: str, **edit: Any) -> Any:
    return client.patch(address, json=edit, headers=tag_of(client, address))


def test_a_model_is_renamed(client: TestClient, house: str) -> None:
    """It is found under its new name at once, and no longer under the old; its id and alias stay."""
    old = client.get(house).json()["reference"]
    renamed = patch(client, house, name="office-1b")
    assert renamed.status_code == 200, renamed.text
    assert renamed.json()["reference"] == "office-1b:Q4_K_M"
    assert client.get("/models/office-1b").json()["id"] == client.get("/models/house").json()["id"]
    expect_problem(client.get(f"/models/{old}"), "unknown-model")


def test_aliases_are_set_as_a_whole(client: TestClient, house: str) -> None:
    """Those that are not named any more are free, in one edit with the new ones."""
    assert patch(client, house, aliases=["Team/A", "team/b"]).json()["aliases"] == ["team/a", "team/b"]
    expect_problem(client.get("/models/house"), "unknown-model")
    assert patch(client, BUILTIN, aliases=["house"]).json()["aliases"] == ["house"]
    expect_problem(patch(client, house, aliases=["house"]), "contradiction")
    assert client.get(house).json()["aliases"] == ["team/a", "team/b"]


def test_names_that_cannot_be_had(client: TestClient, house: str) -> None:
    """Another model's name, any for a model that ships, and what is no name."""
    expect_problem(patch(client, house, name="llama-3.2-1b"), "contradiction")
    expect_problem(patch(client, BUILTIN, name="mine"), "contradiction")
    for edit in ({"name": "My Model"}, {"aliases": ["sha256:00"]}, {}, {"quant": "Q8_0"}):
        expect_problem(patch(client, house, **edit), "invalid-request")


def test_an_edit_says_what_it_was_made_from(client: TestClient, house: str) -> None:
    """Of two edits of one version the second is refused."""
    tag = tag_of(client, house)
    expect_problem(client.patch(house, json={"name": "a"}), "precondition-required")
    expect_problem(client.delete(house), "precondition-required")
    assert client.patch(house, json={"name": "a"}, headers=tag).status_code == 200
    expect_problem(client.patch(house, json={"name": "b"}, headers=tag), "precondition-failed")
    expect_problem(client.delete(house, headers=tag), "precondition-failed")


def test_a_model_is_removed(client: TestClient, house: str) -> None:
    """With its aliases; a model that ships stays."""
    assert client.delete(house, headers=tag_of(client, house)).status_code == 204
    expect_problem(client.get(house), "unknown-model")
    expect_problem(client.get("/models/house"), "unknown-model")
    expect_problem(client.delete(BUILTIN, headers=tag_of(client, BUILTIN)), "contradiction")
    changes = client.get("/audit?kind=alias").json()["changes"]
    assert [(one["action"], one["entity"], one["actor"]) for one in changes] == [
        ("delete", "house", "anonymous"),
        ("create", "house", "anonymous"),
    ]
