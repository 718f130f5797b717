"""Two real servers that share one PostgreSQL: what one changes the other knows within a second."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import httpx2
import pytest

from service.planning.access.keys import make_key, revoke_key
from service.planning.access.scopes import SCOPES
from tests.databases import Databases, migrate_and_seed, opened
from tests.remote.llama import HEADER, named_header
from tests.servers import running, wait_until_ready
from tests.shells.rest.test_card_edits import CARD
from tests.working import jobs_of

SOON_S = 1.0
MEASURED = """\
| model                 |      size |  params | backend | ngl | fa |  test |             t/s |
| --------------------- | --------: | ------: | ------- | --: | -: | ----: | --------------: |
| gpt-oss 20B MXFP4 MoE | 11.27 GiB | 20.91 B | ROCm    |  99 |  1 | tg128 |   137.39 ± 0.05 |
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicas:
    """Clients of both servers, with every scope, and the address of their database."""

    one: httpx2.Client
    other: httpx2.Client
    database_url: str


@pytest.fixture(scope="module")
def replicas(postgresql: Databases) -> Iterator[Replicas]:
    """Two servers on one seeded database, both of which have answered before."""
    url = postgresql.copy_of("seeded", migrate_and_seed)
    with opened(url) as database:
        key = make_key(database, "ci", SCOPES)
    with ExitStack() as ending:
        servers = [ending.enter_context(running(RIGFIT_DATABASE_URL=url)) for _ in range(2)]
        clients = []
        for server in servers:
            wait_until_ready(server.process, f"{server.address}/readyz")
            headers = {"X-API-Key": key.text}
            clients.append(ending.enter_context(httpx2.Client(base_url=server.address, headers=headers, timeout=30)))
            assert clients[-1].get("/gpus/rtx-3090").status_code == 200
        yield Replicas(one=clients[0], other=clients[1], database_url=url)


def seconds_until(seen: Callable[[], bool]) -> float:
    """How long it takes until something is seen, asked again and again."""
    started = time.monotonic()
    while not seen():
        assert time.monotonic() - started < 10
        time.sleep(0.02)
    return time.monotonic() - started


def test_catalogue_changes_are_seen_everywhere_within_a_second(replicas: Replicas) -> None:
    """A card that is added, changed and removed, and a model, over one server, are what the other answers with."""
    one, other = replicas.one, replicas.other
    card, house = "/gpus/lab-card", "/models/house-3.2-1b-instruct"
    added = one.post("/gpus", json=CARD)
    assert seconds_until(lambda: other.get(card).status_code == 200) < SOON_S
    tag = {"if-match": added.headers["etag"]}
    changed = one.put(card, json=CARD | {"tdp_w": 420}, headers=tag)
    assert seconds_until(lambda: other.get(card).headers["etag"] == changed.headers["etag"]) < SOON_S
    assert other.put(card, json=CARD, headers=tag).status_code == 412
    assert one.delete(card, headers={"if-match": "*"}).status_code == 204
    assert seconds_until(lambda: other.get(card).status_code == 404) < SOON_S
    assert one.post("/models", files={"file": ("house.gguf", HEADER)}).status_code == 201
    assert seconds_until(lambda: other.get(house).status_code == 200) < SOON_S


def test_measurements_move_predictions_everywhere_within_a_second(replicas: Replicas) -> None:
    """What one server was told the other predicts by."""
    question = {"model": "gpt-oss-20b:MXFP4", "rig": {"gpus": ["radeon-ai-pro-r9700"]}}

    def basis(client: httpx2.Client) -> Any:
        return client.post("/plan", json=question).json()["speed"]["decode_tokens_per_s"]["mid"]

    before = basis(replicas.other)
    sent = replicas.one.post(
        "/measurements?gpu=Radeon AI PRO R9700", content=MEASURED.encode(), headers={"content-type": "text/plain"}
    )
    assert sent.status_code == 201, sent.text
    assert seconds_until(lambda: basis(replicas.other) != before) < SOON_S
    assert basis(replicas.other) == basis(replicas.one)


def test_a_revoked_key_opens_nothing_anywhere_within_a_second(replicas: Replicas) -> None:
    """A new key opens within a second, and none after it was revoked."""
    with opened(replicas.database_url) as database:
        key = {"X-API-Key": make_key(database, "guest", ["audit"]).text}

        def gives(client: httpx2.Client, status: int) -> bool:
            return client.get("/audit", headers=key).status_code == status

        for client in (replicas.one, replicas.other):
            assert seconds_until(partial(gives, client, 200)) < SOON_S
        revoke_key(database, "guest")
        for client in (replicas.one, replicas.other):
            assert seconds_until(partial(gives, client, 401)) < SOON_S


def test_what_is_sent_twice_is_kept_once(replicas: Replicas) -> None:
    """Of many same imports at once over both servers one is new, the trail has it once, and all get the same answer."""
    model = named_header("Twice")

    def send(number: int) -> httpx2.Response:
        client = (replicas.one, replicas.other)[number % 2]
        return client.post("/models", files={"file": ("twice.gguf", model)})

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(send, range(16)))
    assert sorted(answer.status_code for answer in answers) == [200] * 15 + [201]
    (model_id,) = {answer.json()["id"] for answer in answers}
    assert len(replicas.one.get(f"/audit?kind=model&entity={model_id}").json()["changes"]) == 1


def test_a_batch_that_is_sent_twice_at_once_is_one(replicas: Replicas) -> None:
    """Of many same uploads under one key at once over both servers one is kept, and all are told of it."""
    named = {"content-type": "text/csv", "idempotency-key": "5f2c1e9a-7d3b"}

    def send(number: int) -> httpx2.Response:
        client = (replicas.one, replicas.other)[number % 2]
        return client.post("/plan/batch?queue=true", content=b"model,gpu\nllama-3.2-1b,rtx-3090\n", headers=named)

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(send, range(16)))
    assert {answer.status_code for answer in answers} == {202}
    (address,) = {answer.headers["location"] for answer in answers}
    with opened(replicas.database_url) as database:
        assert [f"/batches/{batch.id}" for batch in jobs_of(database).latest(10)] == [address]


def test_of_many_edits_of_one_version_one_wins(replicas: Replicas) -> None:
    """Nobody overwrites what he has not seen, over whichever server he comes."""
    card = "/gpus/shared-card"
    added = replicas.one.post("/gpus", json=CARD | {"slug": "shared-card", "name": "Shared Card 24GB"})
    assert added.status_code == 201, added.text
    tag = {"if-match": added.headers["etag"]}

    def edit(number: int) -> int:
        client = (replicas.one, replicas.other)[number % 2]
        facts = CARD | {"slug": "shared-card", "name": "Shared Card 24GB", "tdp_w": 200 + number}
        return client.put(card, json=facts, headers=tag).status_code

    with ThreadPoolExecutor(8) as threads:
        assert sorted(threads.map(edit, range(16))) == [200] + [412] * 15
