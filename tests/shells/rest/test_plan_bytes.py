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


def test_what_is_sent_again_is_the_same_answer(client: TestClient) -> None:
    """Headers and body are those of the first time, but for the request's own id."""
    first, again = (client.post("/plan", content=BODY, headers=JSON) for _ in range(2))
    assert first.content == again.content
    assert dict(first.headers) | {"x-request-id": ""} == dict(again.headers) | {"x-request-id": ""}


@pytest.mark.parametrize("media_type", ["application/json; charset=utf-8", "application/problem+json"])
def test_other_spellings_of_a_kept_question_are_answered(client: TestClient, media_type: str) -> None:
    """What the shortcut does not know takes the long way to the same answer."""
    first = client.post("/plan", content=BODY, headers=JSON)
    assert client.post("/plan", content=BODY, headers={"content-type": media_type}).content == first.content
    assert client.post("/plan", content=iter([BODY[:10], BODY[10:]]), headers=JSON).content == first.content


def test_the_shortcut_lets_nothing_pass_that_is_refused(client: TestClient) -> None:
    """Another media type, a parameter that nobody reads and another method are refused as before."""
    client.post("/plan", content=BODY, headers=JSON)
    assert client.post("/plan", content=BODY, headers={"content-type": "text/plain"}).status_code == 415
    assert client.post("/plan?x=1", content=BODY, headers=JSON).status_code == 422
    assert client.put("/plan", content=BODY, headers=JSON).status_code == 405


def test_kept_answers_are_counted_as_requests_of_their_address(client: TestClient) -> None:
    """Metrics see them, under the address and as answers from memory."""
    for _ in range(3):
        client.post("/plan", content=BODY, headers=JSON)
    text = client.get("/metrics").text
    assert 'rigfit_http_requests_total{method="POST",route="/plan",status="200"} 3.0' in text
    assert 'rigfit_kept_answers_total{engine="llama.cpp"} 2.0' in text
