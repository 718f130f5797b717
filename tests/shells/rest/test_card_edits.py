"""POST, PUT and DELETE of cards, and what the audit trail says of them."""

from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from service.contract.cards import EXAMPLE_CARD
from service.planning.access.keys import make_key
from service.settings import Settings
from tests.databases import Databases, migrate_and_seed, opened
from tests.shells.rest.local_client import local_client
from tests.shells.rest.test_problems import expect_problem

CARD: dict[str, Any] = dict(EXAMPLE_CARD)
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"slug": "Lab Card"}, "/slug"),
    ({"vendor": "Voodoo"}, "/vendor"),
    ({"vram_gib": 0}, "/vram_gib"),
    ({"vram_gib": "24"}, "/vram_gib"),
    ({"tdp_w": -1}, "/tdp_w"),
    ({"bandwidth": 1}, "/bandwidth"),
    ({"unified_memory": True}, ""),
    ({"memory_policy": "macos"}, ""),
    ({"unverified": ["colour"]}, ""),
    ({"source_url": "ftp://x"}, "/source_url"),
    ({"as_of": "soon"}, "/as_of"),
    ({"name": None}, "/name"),
]


@pytest.fixture
def client(databases: Databases) -> Iterator[TestClient]:
    """A client with a key for cards and the audit trail, on a database of one test's own."""
    url = databases.copy_of("seeded", migrate_and_seed)
    with opened(url) as database:
        key = make_key(database, "ci", ["cards", "models", "audit"])
    with local_client(Settings(database_url=url, model_hosts=())) as client:
        client.headers["X-API-Key"] = key.text
        yield client


def edit_of(client: TestClient, slug: str, **changed: Any) -> Any:
    """Change a card from the version that is there now."""
    tag = client.get(f"/gpus/{slug}").headers["etag"]
    return client.put(f"/gpus/{slug}", json=CARD | {"slug": slug} | changed, headers={"if-match": tag})


def test_a_card_is_added_and_planned_with(client: TestClient) -> None:
    """It is listed at once, found by its name, and the same again changes nothing."""
    added = client.post("/gpus", json=CARD)
    assert added.status_code == 201, added.text
    assert added.headers["location"] == "/gpus/lab-card"
    shown = client.get("/gpus/Lab Card 24GB")
    assert (shown.json(), shown.headers["etag"]) == (added.json(), added.headers["etag"])
    assert shown.json()["values"]["memory_bandwidth_bytes_per_s"]["value"] == 936.2e9
    plan = client.post("/plan", json={"model": "llama-3.1-8b:Q4_K_M", "rig": {"gpus": ["2x lab-card"]}})
    assert plan.json()["fits"] is True
    again = client.post("/gpus", json=CARD)
    assert (again.status_code, again.headers["etag"]) == (200, added.headers["etag"])
    assert len(client.get("/audit?kind=card&entity=lab-card").json()["changes"]) == 1


def test_a_card_that_is_there_is_not_added_over(client: TestClient) -> None:
    """Other facts under its slug are an edit, and say so."""
    client.post("/gpus", json=CARD)
    assert (
        "PUT /gpus/lab-card" in expect_problem(client.post("/gpus", json=CARD | {"tdp_w": 1}), "contradiction").detail
    )
    expect_problem(client.post("/gpus", json=CARD | {"slug": "rtx-3090"}), "contradiction")


def test_a_card_takes_nobodys_name(client: TestClient) -> None:
    """What means a card today goes on meaning it."""
    before = client.get("/gpus/3090").json()
    for changed in ({"name": "GeForce RTX 3090"}, {"name": "3090"}, {"aliases": ["RTX 4090"]}):
        expect_problem(client.post("/gpus", json=CARD | changed), "contradiction")
        assert client.get("/gpus/3090").json() == before
        expect_problem(client.get("/gpus/lab-card"), "unknown-gpu")


def test_facts_that_are_none(client: TestClient) -> None:
    """A card is refused with the field that is wrong."""
    for changed, pointer in REFUSED:
        problem = expect_problem(client.post("/gpus", json=CARD | changed), "invalid-request")
        assert pointer in [error.pointer for error in problem.errors], changed


def test_an_edit_says_what_it_was_made_from(client: TestClient) -> None:
    """Without a version it is refused, from an old one too, and of two from the same version one wins."""
    tag = client.post("/gpus", json=CARD).headers["etag"]
    hot, cold = CARD | {"tdp_w": 420}, CARD | {"tdp_w": 250}
    expect_problem(client.put("/gpus/lab-card", json=hot), "precondition-required")
    for stale in ('"0"', f"W/{tag}", tag.strip('"')):
        expect_problem(client.put("/gpus/lab-card", json=hot, headers={"if-match": stale}), "precondition-failed")
    changed = client.put("/gpus/lab-card", json=hot, headers={"if-match": f'"0", {tag}'})
    assert changed.status_code == 200
    assert changed.headers["etag"] == client.get("/gpus/lab-card").headers["etag"] != tag
    expect_problem(client.put("/gpus/lab-card", json=cold, headers={"if-match": tag}), "precondition-failed")
    assert client.get("/gpus/lab-card").json()["values"]["tdp_w"]["value"] == 420
    assert client.put("/gpus/lab-card", json=cold, headers={"if-match": "*"}).status_code == 200


def test_a_changed_builtin_card_can_be_had_back(client: TestClient) -> None:
    """It is the user's until it is removed, then it is as it ships again; one that ships cannot be removed."""
    shipped = client.get("/gpus/rtx-3090")
    tag = {"if-match": shipped.headers["etag"]}
    expect_problem(client.delete("/gpus/rtx-3090", headers=tag), "contradiction")
    assert edit_of(client, "rtx-3090", name="GeForce RTX 3090", tdp_w=420).status_code == 200
    expect_problem(client.delete("/gpus/rtx-3090", headers=tag), "precondition-failed")
    tag = {"if-match": client.get("/gpus/rtx-3090").headers["etag"]}
    assert client.delete("/gpus/rtx-3090", headers=tag).status_code == 204
    back = client.get("/gpus/rtx-3090")
    assert (back.json(), back.headers["etag"]) == (shipped.json(), shipped.headers["etag"])


def test_a_card_keeps_its_slug(client: TestClient) -> None:
    """An edit under another slug, and of a card that is not there, is refused."""
    tag = {"if-match": client.post("/gpus", json=CARD).headers["etag"]}
    expect_problem(client.put("/gpus/lab-card", json=CARD | {"slug": "new-card"}, headers=tag), "invalid-request")
    expect_problem(client.put("/gpus/none", json=CARD | {"slug": "none"}, headers=tag), "unknown-gpu")
    expect_problem(client.delete("/gpus/none", headers=tag), "unknown-gpu")
    assert client.delete("/gpus/lab-card", headers=tag).status_code == 204
    expect_problem(client.get("/gpus/lab-card"), "unknown-gpu")


def test_the_trail_says_who_changed_what(client: TestClient) -> None:
    """Each change has the key's name, the moment, and the facts before and after; pages follow one another."""
    client.post("/gpus", json=CARD)
    edit_of(client, "lab-card", tdp_w=420)
    client.delete("/gpus/lab-card", headers={"if-match": client.get("/gpus/lab-card").headers["etag"]})
    changes = client.get("/audit?kind=card&entity=lab-card").json()["changes"]
    assert [(one["action"], one["actor"]) for one in changes] == [("delete", "ci"), ("update", "ci"), ("create", "ci")]
    deleted, updated, created = changes
    assert created["before"] is None
    assert deleted["after"] is None
    assert (updated["before"]["tdp_w"], updated["after"]["tdp_w"]) == (350, 420)
    assert updated["before"] == created["after"]
    assert deleted["before"] == updated["after"]
    first = client.get("/audit?limit=2").json()
    rest = client.get(f"/audit?before_id={first['next_before_id']}").json()
    ids = [one["id"] for one in first["changes"] + rest["changes"]]
    assert ids == sorted(ids, reverse=True)
    assert rest["next_before_id"] is None
    actors = {(one["kind"], one["action"]): one["actor"] for one in rest["changes"]}
    assert actors[("card", "seed")] == actors[("model", "seed")] == "release"
    assert actors[("key", "create")] == "command line"


def test_an_edit_that_is_refused_leaves_no_trace(client: TestClient) -> None:
    """Row and trail stand in one transaction."""
    before = client.get("/audit").json()
    expect_problem(client.post("/gpus", json=CARD | {"name": "GeForce RTX 3090"}), "contradiction")
    expect_problem(client.delete("/gpus/rtx-3090", headers={"if-match": "*"}), "contradiction")
    assert client.get("/audit").json() == before
