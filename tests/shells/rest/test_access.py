"""Who may do what over HTTP: each check states what is sent, and what must come back."""

from collections.abc import Iterator, Mapping

import pytest
from sqlalchemy import Engine
from starlette.testclient import TestClient

from service.app import create_app
from service.planning.access.key_text import new_key
from service.planning.access.keys import make_key, revoke_key
from service.planning.access.scopes import SCOPES, Scope
from service.settings import Settings
from tests.databases import Databases, migrate_and_seed, opened
from tests.shells.rest.local_client import local_client
from tests.shells.rest.test_plan import QUESTION
from tests.shells.rest.test_problems import expect_problem

# refused for what it says, so that nothing is imported; whoever may not write is refused before
IMPORT = {"url": "a b c"}
ORIGIN = "http://127.0.0.1:8000"


@pytest.fixture(scope="module")
def keyless_url(sqlite: Databases) -> str:
    """Address of a database without keys."""
    return sqlite.copy_of("seeded", migrate_and_seed)


@pytest.fixture
def database(sqlite: Databases) -> Iterator[Engine]:
    """A seeded database of one test's own."""
    with opened(sqlite.copy_of("seeded", migrate_and_seed)) as database:
        yield database


@pytest.fixture
def client(database: Engine) -> Iterator[TestClient]:
    """A client elsewhere in the network."""
    with TestClient(create_app(settings_of(database)), client=("10.0.0.7", 50_000)) as client:
        yield client


@pytest.fixture
def reading_client(database: Engine) -> Iterator[TestClient]:
    """A client of a service where reading needs a key."""
    with TestClient(create_app(settings_of(database, require_key_to_read=True))) as client:
        yield client


def settings_of(database: Engine, **more: bool) -> Settings:
    return Settings(database_url=str(database.url), model_hosts=(), **more)  # type: ignore[arg-type]


def key_of(database: Engine, *scopes: Scope) -> Mapping[str, str]:
    return {"X-API-Key": make_key(database, "-".join(scopes).strip("-"), scopes).text}


def test_writing_from_elsewhere_needs_a_key(client: TestClient) -> None:
    """The refusal says which key, and where it goes."""
    answer = client.post("/models", json=IMPORT)
    problem = expect_problem(answer, "unauthorized")
    assert answer.headers["www-authenticate"] == 'ApiKey realm="rigfit", header="X-API-Key"'
    assert "rigfit keys create NAME --scope models" in problem.detail
    expect_problem(client.post("/measurements", content=b"x"), "unauthorized")


def test_a_key_with_the_scope_writes(client: TestClient, database: Engine) -> None:
    """Past the gate it is the request itself that is refused."""
    key = key_of(database, "models")
    expect_problem(client.post("/models", json=IMPORT, headers=key), "invalid-request")


def test_a_key_without_the_scope_does_not(client: TestClient, database: Engine) -> None:
    """It is known, and may not; it may read."""
    key = key_of(database, "measurements")
    problem = expect_problem(client.post("/models", json=IMPORT, headers=key), "forbidden")
    assert "scope models" in problem.detail
    assert client.post("/plan", json=QUESTION, headers=key).status_code == 200


def test_a_key_that_is_none_is_never_overlooked(client: TestClient, database: Engine) -> None:
    """Even where no key is needed, a wrong one is refused and not taken for none."""
    revoked = key_of(database, "models")
    revoke_key(database, "models")
    for shown in (new_key(), "secret", "", revoked["X-API-Key"], "\xff"):
        headers = {b"X-API-Key": shown.encode("latin-1")}
        expect_problem(client.post("/plan", json=QUESTION, headers=headers), "unauthorized")
        expect_problem(client.post("/models", json=IMPORT, headers=headers), "unauthorized")


def test_reading_needs_no_key_by_default(client: TestClient) -> None:
    """Questions, catalogues, the page and health are open, and so is keeping a plan."""
    for path in ("/", "/gpus", "/healthz", "/problems/forbidden", "/docs"):
        assert client.get(path).status_code == 200
    assert client.post("/plans", json=QUESTION).status_code == 201


def test_the_machine_itself_writes_until_the_first_key_is_made(database: Engine) -> None:
    """A first start needs nothing set up; from the first key on, and after it is revoked, writing needs one."""
    with local_client(settings_of(database)) as client:
        expect_problem(client.post("/models", json=IMPORT), "invalid-request")
    key = key_of(database, "models")
    with local_client(settings_of(database)) as client:
        expect_problem(client.post("/models", json=IMPORT), "unauthorized")
        expect_problem(client.post("/models", json=IMPORT, headers=key), "invalid-request")
    revoke_key(database, "models")
    with local_client(settings_of(database)) as client:
        expect_problem(client.post("/models", json=IMPORT), "unauthorized")


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "http://127.0.0.1:9000"},
        {"origin": "null"},
        {"host": "rigfit.evil.example"},
        {"host": "evil.example:8000"},
        {"x-forwarded-for": "127.0.0.1"},
        {"forwarded": "for=127.0.0.1"},
        {"x-real-ip": "127.0.0.1"},
    ],
    ids=str,
)
def test_what_only_passes_through_this_machine_does_not_write(keyless_url: str, headers: dict[str, str]) -> None:
    """A page of another site in a local browser, a name that was made to point here, and what a proxy hands on."""
    with local_client(Settings(database_url=keyless_url, model_hosts=())) as client:
        expect_problem(client.post("/models", json=IMPORT, headers=headers), "unauthorized")
        expect_problem(client.post("/models", json=IMPORT, headers={"origin": ORIGIN}), "invalid-request")


def test_local_writing_can_be_closed_and_all_writing_opened(keyless_url: str) -> None:
    """`never` leaves nobody out, `always` nobody in doubt."""
    with local_client(Settings(database_url=keyless_url, model_hosts=(), writes_without_key="never")) as client:
        expect_problem(client.post("/models", json=IMPORT), "unauthorized")
    opened_up = Settings(database_url=keyless_url, model_hosts=(), writes_without_key="always")
    with TestClient(create_app(opened_up), client=("10.0.0.7", 50_000)) as client:
        expect_problem(client.post("/models", json=IMPORT), "invalid-request")


def test_reading_can_need_a_key(reading_client: TestClient, database: Engine) -> None:
    """Every scope may read then; health, kinds of problems and the documentation stay open."""
    keys = [key_of(database, scope) for scope in SCOPES]
    for path in ("/gpus", "/plan?model=llama-3.2-1b", "/rigs", "/nowhere"):
        expect_problem(reading_client.get(path), "unauthorized")
    expect_problem(reading_client.post("/plan", json=QUESTION), "unauthorized")
    for path in ("/healthz", "/readyz", "/problems/unauthorized", "/openapi.json", "/static/page.css"):
        assert reading_client.get(path).status_code == 200
    for key in keys:
        assert reading_client.post("/plan", json=QUESTION, headers=key).status_code == 200
    # what was answered to others before lies ready, and is not given away either
    expect_problem(reading_client.post("/plan", json=QUESTION), "unauthorized")


def test_a_browser_is_asked_for_the_key(reading_client: TestClient, database: Engine) -> None:
    """It is shown a form, and with the key given there it reads, and never writes."""
    as_browser = {"accept": "text/html,*/*;q=0.8"}
    key = key_of(database, "models", "read")["X-API-Key"]
    asked = reading_client.get("/?model=llama-3.2-1b", headers=as_browser)
    assert asked.status_code == 401
    assert 'name="key"' in asked.text
    assert 'value="/?model=llama-3.2-1b"' in asked.text
    wrong = reading_client.post("/sign-in", data={"key": new_key()})
    assert wrong.status_code == 401
    assert "set-cookie" not in wrong.headers
    signed_in = reading_client.post(
        "/sign-in", data={"key": key, "target": "/?model=llama-3.2-1b"}, follow_redirects=False
    )
    assert (signed_in.status_code, signed_in.headers["location"]) == (303, "/?model=llama-3.2-1b")
    cookie = signed_in.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert reading_client.get("/", headers=as_browser).status_code == 200
    assert reading_client.get("/answer?model=llama-3.2-1b").status_code == 200
    expect_problem(reading_client.post("/models", json=IMPORT), "unauthorized")


@pytest.mark.parametrize("target", ["//evil.example", "/\\evil.example", "https://evil.example", ""])
def test_signing_in_leads_nowhere_else(reading_client: TestClient, database: Engine, target: str) -> None:
    """A prepared link cannot send a browser to another site."""
    key = key_of(database, "read")["X-API-Key"]
    answer = reading_client.post("/sign-in", data={"key": key, "target": target}, follow_redirects=False)
    assert answer.headers["location"] == "/"


def test_without_a_database_keys_are_not_guessed() -> None:
    """Where keys cannot be read nobody is let in and nobody is called wrong."""
    settings = Settings(database_url="postgresql://nobody@127.0.0.1:1/none")
    with local_client(settings) as client:
        expect_problem(client.post("/models", json=IMPORT), "not-ready")
        expect_problem(client.post("/models", json=IMPORT, headers={"X-API-Key": new_key()}), "not-ready")
