"""A database of the first migration, with what its release wrote into every table, brought to the newest one.

first_release.json is the database of commit 2bfa082, the last before the second migration, after `rigfit migrate`,
`rigfit models import` of a GGUF file, an edited and an entered card, and two plans saved over HTTP. Of its built-in
cards and models only a few are there, which is why the catalogues' digests are not.
"""

import base64
import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, MetaData, Table, select
from starlette.testclient import TestClient

from service.app import create_app
from service.catalog.gpu_documents import gpu_document
from service.catalog.gpus import builtin_gpus
from service.settings import Settings
from service.store.migrations import current_revision, head_revision, upgrade
from tests.databases import Databases, migrate_and_seed, opened

Rows = dict[str, list[dict[str, Any]]]
FIRST = "0001"
MOMENTS = frozenset({"updated_at", "added_at", "created_at"})


def first_release() -> Rows:
    """Rows by table, with bytes and moments in place of their text."""
    rows: Rows = json.loads(Path(__file__).with_name("first_release.json").read_text("utf-8"))
    for row in (row for table in rows.values() for row in table):
        for column in MOMENTS & row.keys():
            row[column] = datetime.fromisoformat(row[column])
        if "header_xz" in row:
            row["header_xz"] = base64.b64decode(row["header_xz"])
    return rows


def fill_first_release(engine: Engine) -> None:
    """Make the tables of the first migration and put its release's rows into them."""
    upgrade(engine, FIRST)
    assert current_revision(engine) == FIRST
    with engine.begin() as connection:
        for name, rows in first_release().items():
            table = Table(name, MetaData(), autoload_with=connection)
            connection.execute(table.delete())
            connection.execute(table.insert(), rows)


def rows_of(engine: Engine, name: str) -> dict[str, dict[str, Any]]:
    """Rows of a table as it is now, by their first column."""
    with engine.connect() as connection:
        table = Table(name, MetaData(), autoload_with=connection)
        return {row[0]: dict(row._mapping) for row in connection.execute(select(table))}


def fill_and_upgrade(engine: Engine) -> None:
    """What an operator does: the first release's database, then `rigfit migrate` of this one."""
    fill_first_release(engine)
    migrate_and_seed(engine)


@pytest.fixture
def upgraded_url(databases: Databases) -> str:
    """Address of such a database after this release's `rigfit migrate`."""
    return databases.copy_of("upgraded", fill_and_upgrade)


@pytest.fixture
def client(upgraded_url: str) -> Iterator[TestClient]:
    """This release on that database."""
    with TestClient(create_app(Settings(database_url=upgraded_url, model_hosts=()))) as client:
        yield client


@pytest.mark.parametrize("table", ["gpus", "models", "saved_plans"])
def test_what_users_wrote_is_there_unchanged(upgraded_url: str, table: str) -> None:
    """Every column of every row that is a user's holds what it held, whatever was added beside it."""
    wrote = [row for row in first_release()[table] if row.get("origin") != "builtin"]
    assert wrote
    with opened(upgraded_url) as engine:
        assert current_revision(engine) == head_revision()
        held = rows_of(engine, table)
    for row in wrote:
        key = next(iter(row.values()))
        for column in row.keys() - MOMENTS:
            assert held[key][column] == row[column], (key, column)
        for column in row.keys() & MOMENTS:
            assert held[key][column].replace(tzinfo=None) == row[column], (key, column)


def test_revisions_only_move_forward(upgraded_url: str) -> None:
    """A process that remembers a revision of the first release sees that something changed."""
    before = {row["name"]: row["revision"] for row in first_release()["catalogues"]}
    with opened(upgraded_url) as engine:
        after = {name: row["revision"] for name, row in rows_of(engine, "catalogues").items()}
    assert {name: after[name] > revision for name, revision in before.items()} == {"gpus": True, "models": True}


def test_builtin_cards_and_models_are_those_of_this_release(client: TestClient) -> None:
    """What came with the first release was brought up to date, and what it lacked was added."""
    named = builtin_gpus().names.resolve("rtx-4090")
    assert client.get("/gpus/rtx-4090").json() == json.loads(json.dumps(gpu_document(named.record)))
    assert client.get("/models/qwen3-32b:Q4_K_M").status_code == 200


@pytest.mark.parametrize("row", first_release()["saved_plans"], ids=lambda row: row["id"])
def test_saved_plans_are_served_as_they_were_answered(client: TestClient, row: dict[str, Any]) -> None:
    """Their addresses give the same JSON, key by key in the same order, and a page for people."""
    answer = client.get(f"/plans/{row['id']}")
    assert answer.status_code == 200
    assert json.dumps(answer.json()) == json.dumps(row["plan"])
    page = client.get(f"/plans/{row['id']}", headers={"accept": "text/html"})
    assert page.status_code == 200
    assert row["plan"]["command"]["argv"][0] in page.text


@pytest.mark.parametrize("row", first_release()["saved_plans"], ids=lambda row: row["id"])
def test_questions_of_saved_plans_can_be_asked_again(client: TestClient, row: dict[str, Any]) -> None:
    """The model that was imported and the card that was entered answer as before; a charted plan as well."""
    again = client.post("/plan", json=row["request"])
    assert again.status_code == 200, again.text
    assert again.json()["verdict"] == row["plan"]["verdict"]
    assert [device["gpu"] for device in again.json()["devices"]] == [device["gpu"] for device in row["plan"]["devices"]]
    assert client.get(f"/plans/{row['id']}/curves").status_code == 200


def test_the_edited_card_stays_edited(client: TestClient) -> None:
    """This release's own figures do not take the place of a user's."""
    card = client.get("/gpus/rtx-3090").json()
    assert card["values"]["tdp_w"]["value"] == 280
