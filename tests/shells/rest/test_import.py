"""POST /models: models of other hosts."""

import logging
import time
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from service.contract.problem import Problem
from service.core.units import MIB
from service.gguf.reader import read_header
from tests.databases import Databases, migrate_and_seed
from tests.remote.checkpoints import CONFIG, INDEX, SHARDS
from tests.remote.files import MODEL
from tests.remote.llama import HEADER, SIZE_BYTES, named_header
from tests.remote.model_host import ModelHost, document, failing, model_host, ranged
from tests.remote.test_listing import hf_tree
from tests.shells.rest.model_importing import importing_client
from tests.shells.rest.test_problems import expect_problem

REPOSITORY = "house/House-3.2-1B-GGUF"
FILE = "House-3.2-1B-Q4_K_M.gguf"


@pytest.fixture
def host() -> Iterator[ModelHost]:
    """A model host with one repository."""
    with model_host() as host:
        host.answers[f"/hf/api/models/{REPOSITORY}/tree/main"] = hf_tree([(FILE, SIZE_BYTES), ("README.md", 1)])
        host.answers[f"/hf/{REPOSITORY}/resolve/main/{FILE}"] = ranged(HEADER, SIZE_BYTES)
        yield host


@pytest.fixture
def client(sqlite: Databases, host: ModelHost) -> Iterator[TestClient]:
    """The application on a database of its own, beside the model host."""
    with importing_client(sqlite.copy_of("seeded", migrate_and_seed), host, model_fetch_s=5.0) as client:
        yield client


def post(client: TestClient, **request: Any) -> Any:
    return client.post("/models", json=request)


def test_a_file_of_a_repository_is_imported(client: TestClient, host: ModelHost) -> None:
    """Its header is read, the model is in the catalogue at once and can be planned by name and by id."""
    answer = post(client, repo=REPOSITORY, file=FILE)
    assert answer.status_code == 201, answer.text
    model = answer.json()
    assert (model["id"], model["reference"]) == (read_header(HEADER).id, "house-3.2-1b-instruct:Q4_K_M")
    assert answer.headers["location"] == f"/models/{model['id']}"
    assert client.get(answer.headers["location"]).json() == model
    assert model["source"] == f"{host.url}/hf/{REPOSITORY}/resolve/main/{FILE}"
    assert host.sent_bytes <= 1 * MIB
    for reference in (model["reference"], model["id"]):
        plan = client.post("/plan", json={"model": reference, "rig": {"gpus": ["rtx-3090"]}})
        assert plan.json()["fits"] is True
    assert any(listed["name"] == model["name"] for listed in client.get("/models?search=house").json())


@pytest.mark.parametrize(
    "request_",
    [
        {"url": f"hf.co/{REPOSITORY}:Q4_K_M"},
        {"repo": f"{REPOSITORY}:Q4_K_M"},
        {"repo": REPOSITORY, "file": FILE, "revision": "main"},
    ],
)
def test_the_ways_to_name_it_lead_to_one_manifest(client: TestClient, request_: dict[str, str]) -> None:
    """The second import finds what is there and says so."""
    first = post(client, repo=REPOSITORY, file=FILE)
    again = post(client, **request_)
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json() == first.json()


def test_a_repository_alone_is_listed(client: TestClient) -> None:
    """The caller chooses; nothing is kept."""
    before = client.get("/models").json()
    answer = post(client, repo=REPOSITORY)
    assert answer.status_code == 200
    assert answer.json() == {
        "repo": REPOSITORY,
        "files": [{"file": FILE, "size_bytes": SIZE_BYTES, "parts": 1, "missing": []}],
    }
    assert client.get("/models").json() == before


def test_a_model_can_have_an_alias(client: TestClient) -> None:
    """It is found by it whatever the case, and the alias cannot be taken from it."""
    model = post(client, repo=REPOSITORY, file=FILE, alias="Team/Assistant").json()
    assert model["aliases"] == ["team/assistant"]
    assert client.get("/models/team/ASSISTANT").json()["id"] == model["id"]
    assert client.post("/plan", json={"model": "team/assistant"}).status_code == 200
    assert post(client, repo=REPOSITORY, file=FILE, alias="team/assistant").status_code == 200


@pytest.mark.parametrize("alias", ["llama-3.3-70b", "Llama-3.3-70B:Q4_K_M", "taken"])
def test_an_alias_that_is_taken(client: TestClient, host: ModelHost, alias: str) -> None:
    """A name of another model stays that model's, and nothing is kept."""
    host.answers["/other.gguf"] = ranged(named_header("Villa"), SIZE_BYTES)
    post(client, repo=REPOSITORY, file=FILE, alias="taken")
    before = client.get("/models").json()
    expect_problem(post(client, url=f"{host.url}/other.gguf", alias=alias), "contradiction")
    assert client.get("/models").json() == before


def test_a_checkpoint_is_kept_in_the_same_catalogue(client: TestClient, host: ModelHost) -> None:
    """It is listed and shown, and not planned by an engine that cannot load it."""
    folder = "/hf/owner/Name/resolve/main"
    host.answers[f"{folder}/config.json"] = document(CONFIG)
    host.answers[f"{folder}/model.safetensors.index.json"] = document(INDEX)
    host.answers |= {f"{folder}/{name}": ranged(content) for name, content in SHARDS.items()}
    answer = post(client, repo="owner/Name", file="config.json")
    assert answer.status_code == 201, answer.text
    model = answer.json()
    assert (model["reference"], model["format"]) == ("name-checkpoint:bfloat16", "safetensors")
    assert (model["architecture"], model["trained_context_tokens"]) == ("LlamaForCausalLM", 131072)
    assert model["bytes_by_type"] == {"bf16": 512, "f32": 32}
    assert model["planned"] is False
    problem = expect_problem(client.post("/plan", json={"model": model["reference"]}), "unsupported")
    assert "convert it to GGUF" in problem.detail


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({}, "/"),
    "both": ({"url": "https://x.example/x.gguf", "repo": "a/b"}, "/"),
    "a file without repository": ({"url": "https://x.example/x.gguf", "file": "x.gguf"}, "/"),
    "a field nobody knows": ({"repo": "a/b", "quant": "Q4_K_M"}, "/quant"),
    "a number": ({"repo": 7}, "/repo"),
    "an address as repository": ({"repo": "https://x.example/x.gguf"}, "/repo"),
    "a file beside a quant": ({"repo": "a/b:Q4_K_M", "file": "x.gguf"}, "/file"),
    "a path that climbs": ({"repo": "a/b", "file": "../x.gguf"}, ""),
    "an alias that is an id": ({"repo": "a/b", "alias": "sha256:00"}, "/alias"),
    "an alias with a space": ({"repo": "a/b", "alias": "my model"}, "/alias"),
    "no name": ({"url": "a b c"}, ""),
}


@pytest.mark.parametrize(("request_", "pointer"), REFUSED.values(), ids=REFUSED.keys())
def test_requests_that_mean_nothing(
    client: TestClient, host: ModelHost, request_: dict[str, Any], pointer: str
) -> None:
    """They are refused before anything is asked, with the field concerned."""
    problem = expect_problem(post(client, **request_), "invalid-request")
    assert any(error.pointer.startswith(pointer.rstrip("/")) for error in problem.errors) or not pointer
    assert host.requests == []


def expect_remote_problem(answer: Any, slug: str, status: int) -> Problem:
    """A problem with the status that it has for other hosts."""
    problem = Problem.model_validate(answer.json())
    assert (problem.type, problem.status, answer.status_code) == (f"/problems/{slug}", status, status)
    return problem


def test_problems_of_other_hosts(client: TestClient, host: ModelHost) -> None:
    """Each kind has its slug and its status."""
    host.answers["/gated.gguf"] = lambda exchange: exchange.answer(401)
    host.answers["/down.gguf"] = failing(99, 503, ranged(MODEL))
    host.answers["/page.gguf"] = ranged(b"<html>" * 99)
    host.answers["/plain.gguf"] = lambda exchange: exchange.answer(200, MODEL)
    for path, slug, status in (
        ("/gated.gguf", "unauthorized", 401),
        ("/absent.gguf", "unknown-model", 404),
        ("/down.gguf", "model-host-unavailable", 502),
        ("/page.gguf", "unreadable-model", 502),
        ("/plain.gguf", "unreadable-model", 502),
    ):
        expect_remote_problem(post(client, url=host.url + path), slug, status)
    for url in ("https://evil.example/x.gguf", "http://127.0.0.1:1/x.gguf", "https://localhost/x.gguf"):
        expect_remote_problem(post(client, url=url), "forbidden-host", 403)
    assert post(client, url=f"{host.url}/gated.gguf").headers["www-authenticate"] == "Bearer"


def test_a_host_that_does_not_answer(sqlite: Databases, host: ModelHost) -> None:
    """The deadline of the settings ends it."""
    host.answers["/slow.gguf"] = lambda _: time.sleep(1)
    with importing_client(sqlite.copy_of("seeded", migrate_and_seed), host, model_fetch_s=0.3) as client:
        expect_remote_problem(post(client, url=f"{host.url}/slow.gguf"), "model-host-timeout", 504)


def test_an_unknown_architecture_is_not_kept(client: TestClient, host: ModelHost) -> None:
    """What nothing could be planned for is refused with the reason."""
    host.answers["/x.gguf"] = ranged(MODEL.replace(b"llama", b"lhama"))
    assert "lhama" in expect_problem(post(client, url=f"{host.url}/x.gguf"), "unsupported").detail


def test_a_credential_reaches_the_host_and_nothing_else(
    client: TestClient, host: ModelHost, caplog: pytest.LogCaptureFixture, sqlite: Databases
) -> None:
    """It opens the file; it is in no log, no answer and no row."""
    caplog.set_level(logging.DEBUG)
    secret = "Bearer hf_verysecret"  # noqa: S105

    def gated(exchange: Any) -> None:
        (ranged(HEADER, SIZE_BYTES) if exchange.headers.get("authorization") == secret else denied)(exchange)

    def denied(exchange: Any) -> None:
        exchange.answer(403)

    host.answers["/gated.gguf"] = gated
    expect_remote_problem(post(client, url=f"{host.url}/gated.gguf"), "unauthorized", 401)
    url = f"{host.url}/gated.gguf?token=hf_alsosecret"
    answer = client.post("/models", json={"url": url}, headers={"authorization": secret})
    assert answer.status_code == 201, answer.text
    files = b"".join(path.read_bytes() for path in sqlite_files(sqlite))
    for told in (answer.text.encode(), caplog.text.encode(), files):
        assert b"secret" not in told


def sqlite_files(databases: Databases) -> list[Any]:
    """Files of every SQLite database of the run."""
    folder = getattr(databases, "folder")  # noqa: B009
    return list(folder.iterdir())


@pytest.mark.parametrize("authorization", ["", " ", "Bearer \x7f"])
def test_a_credential_is_one_line_of_visible_characters(client: TestClient, authorization: str) -> None:
    """Nothing else is sent to a host."""
    answer = client.post("/models", json={"repo": REPOSITORY}, headers={"authorization": authorization})
    assert expect_problem(answer, "invalid-request").detail


def test_an_address_is_planned_without_being_kept(client: TestClient, host: ModelHost) -> None:
    """POST /plan reads the header once and remembers it for a while; the catalogue stays as it is."""
    host.answers["/x.gguf"] = ranged(HEADER, SIZE_BYTES)
    before = client.get("/models").json()
    question = {"model": {"url": f"{host.url}/x.gguf"}, "rig": {"gpus": ["rtx-3090"]}}
    plans = [client.post("/plan", json=question).json() for _ in range(3)]
    assert plans[0]["model"]["id"] == read_header(HEADER).id
    assert plans[0]["id"] == plans[1]["id"] == plans[2]["id"]
    assert len(host.requests) == 1
    assert client.get("/models").json() == before
    problem = expect_problem(client.post("/plan", json={"model": {"url": REPOSITORY}}), "invalid-request")
    assert problem.suggestions == [FILE]


def test_more_models_at_once_than_there_is_room_for(sqlite: Databases, host: ModelHost) -> None:
    """One more is told to come back, not kept waiting."""
    with importing_client(sqlite.copy_of("seeded", migrate_and_seed), host, max_model_fetches=1) as client:
        with client.app.state.remote.slot():  # type: ignore[attr-defined]
            answer = post(client, repo=REPOSITORY, file=FILE)
        expect_problem(answer, "rate-limited")
        assert answer.headers["retry-after"] == "1"
        assert post(client, repo=REPOSITORY, file=FILE).status_code == 201
