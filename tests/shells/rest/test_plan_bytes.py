"""Plans kept as the bytes that are sent."""

import json
from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from service.app import create_app
from service.core.problems import InvalidRequest
from service.planning.catalogues import BuiltinCatalogues
from service.planning.planner import Planner
from service.settings import Settings
from service.shells.rest.plan_bytes import LONGEST_KEPT_BYTES, PlanBytes
from tests.databases import Databases, migrate_and_seed
from tests.shells.rest.test_card_edits import CARD
from tests.shells.rest.test_plan import QUESTION

BODY = json.dumps(QUESTION).encode()
JSON = {"content-type": "application/json"}


@pytest.fixture
def plans() -> PlanBytes:
    """Plans from the built-in catalogues."""
    return PlanBytes(Planner(BuiltinCatalogues()))


@pytest.fixture
def client(sqlite: Databases) -> Iterator[TestClient]:
    """An application of one test's own, which looks at its database at every question."""
    url = sqlite.copy_of("seeded", migrate_and_seed)
    settings = Settings(database_url=url, model_hosts=(), catalogue_refresh_s=30, writes_without_key="always")
    with TestClient(create_app(settings)) as client:
        yield client


def test_the_same_bytes_get_the_same_bytes(plans: PlanBytes) -> None:
    """What was asked before is there at once; another spelling of it is planned, to the same answer."""
    assert plans.again(BODY) is None
    answer = plans.plan(BODY)
    assert plans.again(BODY) is answer
    assert plans.again(BODY + b" ") is None
    assert plans.plan(BODY + b" ") == answer


def test_what_may_change_unseen_is_not_kept(plans: PlanBytes) -> None:
    """A card stated by its figures is a fact of the question; a long question would take room of many."""
    figures = {"name": "lab card", "vram_bytes": 2**35}
    inline = json.dumps(QUESTION | {"rig": {"gpus": [{"gpu": figures}]}}).encode()
    assert plans.again(inline) is None
    assert plans.plan(inline) == plans.again(inline)
    long = BODY + b" " * LONGEST_KEPT_BYTES
    assert plans.plan(long) == plans.plan(BODY)
    assert plans.again(long) is None


def test_no_body_is_no_question(plans: PlanBytes) -> None:
    """An empty body is refused in words about a body, not about JSON."""
    with pytest.raises(InvalidRequest, match="no body"):
        plans.plan(b"")


def test_an_edited_card_changes_the_next_answer(client: TestClient) -> None:
    """What was kept before an edit is not given after it."""
    name = "GeForce RTX 3090"
    before = client.post("/plan", content=BODY, headers=JSON)
    assert client.post("/plan", content=BODY, headers=JSON).content == before.content
    edited = client.put(
        "/gpus/rtx-3090", json=CARD | {"slug": "rtx-3090", "name": name, "tdp_w": 123}, headers={"if-match": "*"}
    )
    assert edited.status_code == 200, edited.text
    after = client.post("/plan", content=BODY, headers=JSON)
    assert after.json()["power"] != before.json()["power"]
