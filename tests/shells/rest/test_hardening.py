"""What is refused before it costs anything, and what browsers are told: what is sent, and what must come back."""

import gzip
import json
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from pydantic import ValidationError
from starlette.testclient import TestClient

from service.app import create_app
from service.planning.access.key_text import new_key
from service.planning.access.keys import make_key
from service.settings import Settings
from service.shells.serving.heads import LONGEST_HEAD_BYTES
from tests.databases import Databases, migrate_and_seed, opened
from tests.servers import RunningService, running, wait_until_ready
from tests.shells.rest.local_client import local_client
from tests.shells.rest.test_card_edits import CARD
from tests.shells.rest.test_plan import QUESTION
from tests.shells.rest.test_problems import expect_problem

TOOLS = "https://tools.example"
JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def url(sqlite: Databases) -> str:
    """Address of a seeded database."""
    return sqlite.copy_of("seeded", migrate_and_seed)


@pytest.fixture(scope="module")
def service(url: str) -> Iterator[RunningService]:
    """A real server, whose sockets are written to by hand."""
    with running(RIGFIT_DATABASE_URL=url) as service:
        wait_until_ready(service.process, f"{service.address}/readyz")
        yield service


@contextmanager
def client_of(url: str, **more: Any) -> Iterator[TestClient]:
    settings = Settings(database_url=url, model_hosts=(), **more)
    with TestClient(create_app(settings), raise_server_exceptions=False) as client:
        yield client


def exchanged(service: RunningService, *sent: bytes) -> bytes:
    """What comes back for these very bytes, sent one part after the other, until the connection is closed."""
    address = httpx2.URL(service.address)
    with socket.create_connection((address.host, address.port or 80), timeout=10) as connection:
        received = bytearray()
        try:
            for part in sent:
                connection.sendall(part)
                time.sleep(0.1)
            while part := connection.recv(65536):
                received += part
        except ConnectionError:
            pass
        return bytes(received)


@pytest.mark.parametrize("path", ["/plan", "/plans", "/compare", "/recommend", "/rigs/parse", "/gpus", "/measurements"])
def test_every_body_has_a_longest_one(url: str, path: str) -> None:
    """Stated or in chunks, on every address that reads one."""
    with local_client(Settings(database_url=url, model_hosts=(), max_request_bytes=1000)) as client:
        expect_problem(client.post(path, content=b" " * 1001, headers=JSON), "too-large")
        expect_problem(client.post(path, content=iter([b" " * 100] * 11), headers=JSON), "too-large")


@pytest.mark.parametrize("coding", ["gzip", "br", "deflate", "gzip, identity"])
def test_compressed_bodies_are_not_unpacked(url: str, coding: str) -> None:
    """A small one could become a vast one; the answer says what is read."""
    with client_of(url) as client:
        body = gzip.compress(json.dumps(QUESTION).encode())
        answer = client.post("/plan", content=body, headers=JSON | {"content-encoding": coding})
        expect_problem(answer, "unsupported-media")
        assert answer.headers["accept-encoding"] == "identity"
        plain = client.post("/plan", json=QUESTION, headers={"content-encoding": "identity"})
        assert plain.status_code == 200


def test_an_answer_has_a_longest_time(url: str) -> None:
    """What asks for many plans ends between two of them, as a problem and not as half an answer."""
    rigs = [{"gpus": [f"{count}x rtx-3090"]} for count in range(1, 9)]
    many = {"models": ["llama-3.3-70b:Q4_K_M"], "rigs": rigs, "contexts": [4096, 8192, 16384]}
    with client_of(url, answer_s=0.02) as client:
        problem = expect_problem(client.post("/compare", json=many), "took-too-long")
        assert "/plan/batch" in problem.detail
        wanted = {"model": "llama-3.3-70b:Q4_K_M", "workload": {"context_tokens": 16384}}
        expect_problem(client.post("/recommend", json=wanted), "took-too-long")
        assert client.post("/plan", json=QUESTION).status_code == 200
        answered = client.post(
            "/plan/batch", json=[QUESTION | {"workload": {"context_tokens": n}} for n in range(1, 60)]
        )
        assert all("plan" in line for line in answered.json())


def test_a_head_has_a_longest_one(service: RunningService) -> None:
    """In one field or in many, and in the address: memory does not grow with what never ends."""
    begin = b"GET /healthz HTTP/1.1\r\nhost: x\r\n"
    too_much = LONGEST_HEAD_BYTES + 1000
    for endless in (begin + b"x-long: " + b"a" * too_much, begin + b"x: y\r\n" * too_much, b"GET /" + b"a" * too_much):
        answer = exchanged(service, endless[: too_much // 2], endless[too_much // 2 : too_much])
        assert answer.startswith(b"HTTP/1.1 431 ")
        assert answer.endswith(b"}")
    usual = begin + b"cookie: " + b"a" * (LONGEST_HEAD_BYTES // 2) + b"\r\nconnection: close\r\n\r\n"
    assert exchanged(service, usual).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    "sent",
    [
        b"POST /plan HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /plan HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nabcdef",
        b"POST /plan HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n",
        b"POST /plan HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"GET /healthz HTTP/1.1\r\nhost: x\r\nx-a : b\r\n\r\n",
    ],
    ids=["length and chunks", "two lengths", "negative length", "no chunk", "space before colon"],
)
def test_requests_that_two_servers_could_read_differently(service: RunningService, sent: bytes) -> None:
    """What a proxy might take for another request is no request. Source: RFC 9112, 5.1 and 6.3."""
    assert exchanged(service, sent).split(b"\r\n", 1)[0].split(b" ")[1:2] == [b"400"]


def test_every_answer_is_data_and_nothing_else(url: str) -> None:
    """Answers, problems, failures of routing: none is sniffed, framed or run."""
    with client_of(url) as client:
        answers = [
            client.get("/gpus"), client.get("/nowhere"), client.post("/plan", content=b"{"), client.get("/healthz"),
            client.post("/models", json={}), client.get("/openapi.json"), client.get("/plan/template.xlsx"),
        ]  # fmt: skip
        for answer in answers:
            assert answer.headers["x-content-type-options"] == "nosniff", answer.url
            assert answer.headers["referrer-policy"] == "no-referrer"
            assert answer.headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"
            assert "strict-transport-security" not in answer.headers


@pytest.mark.parametrize("path", ["/", "/sign-in", "/static/page.js", "/plans/pln_none"])
def test_pages_run_nothing_inline(url: str, path: str) -> None:
    """Their own policy stands, once, and allows what this service serves alone."""
    with client_of(url) as client:
        answer = client.get(path, headers={"accept": "text/html"})
    policies = answer.headers.get_list("content-security-policy")
    assert len(policies) == 1
    assert "unsafe" not in policies[0]
    for directive in ("default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"):
        assert directive in policies[0]


def test_the_documentation_runs_its_own_script_alone(url: str) -> None:
    """The one inline script is named by its digest."""
    with client_of(url) as client:
        answer = client.get("/docs")
    policy = answer.headers["content-security-policy"]
    assert answer.text.count("<script>") == 1
    assert policy.count("'sha256-") == 1
    script_rule = next(rule for rule in policy.split("; ") if rule.startswith("script-src"))
    assert "unsafe" not in script_rule


def test_browsers_insist_on_tls_where_that_is_said(url: str) -> None:
    """Behind TLS, and only then."""
    with client_of(url, behind_tls=True) as client:
        assert client.get("/").headers["strict-transport-security"] == "max-age=31536000"


def preflight(client: TestClient, origin: str) -> httpx2.Response:
    asked = {"access-control-request-method": "POST", "access-control-request-headers": "x-api-key"}
    return client.options("/models", headers={"origin": origin} | asked)


def test_other_origins_are_let_in_by_name_alone(url: str) -> None:
    """By default none may read; those that are named may, also why they are refused, and never with cookies."""
    with client_of(url) as client:
        assert "access-control-allow-origin" not in client.get("/gpus", headers={"origin": TOOLS}).headers
        assert "access-control-allow-origin" not in preflight(client, TOOLS).headers
    with client_of(url, cors_origins=(TOOLS,)) as client:
        allowed = preflight(client, TOOLS)
        assert (allowed.status_code, allowed.headers["access-control-allow-origin"]) == (200, TOOLS)
        refused = client.post("/models", json={}, headers={"origin": TOOLS})
        assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (401, TOOLS)
        assert "access-control-allow-credentials" not in refused.headers
        for other in ("https://tools.example.evil.example", "http://tools.example", "null"):
            assert preflight(client, other).status_code == 400
            headers: Mapping[str, str] = client.get("/gpus", headers={"origin": other}).headers
            assert "access-control-allow-origin" not in headers


@pytest.mark.parametrize("origin", ["tools.example", "https://tools.example/", "https://", "*.example"])
def test_what_is_no_origin(origin: str) -> None:
    """A setting that would silently allow nobody stops the process."""
    with pytest.raises(ValidationError, match="origin"):
        Settings(cors_origins=(origin,))


@pytest.mark.parametrize(
    "path",
    ["/static/../page.py", "/static/%2e%2e/page.py", "/static/..%2fpage.py", "/static//etc/passwd", "/static/%00"],
)
def test_no_address_leads_out_of_the_folder_of_files(service: RunningService, path: str) -> None:
    """What lies beside the page's files is not found, however it is spelled."""
    request = f"GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
    assert exchanged(service, request.encode()).split(b" ", 2)[1] == b"404"


def test_names_are_text_and_no_markup(sqlite: Databases) -> None:
    """What someone calls a card runs in nobody's browser."""
    name = "Lab <img src=x onerror=alert(1)> Card"
    settings = Settings(database_url=sqlite.copy_of("seeded", migrate_and_seed), model_hosts=())
    with local_client(settings) as client:
        assert client.post("/gpus", json=CARD | {"name": name}).status_code == 201
        page = client.get("/?model=llama-3.1-8b:Q4_K_M&gpus=lab-card").text
        refused = client.get("/?model=%3Cscript%3Ealert(1)%3C/script%3E&gpus=lab-card").text
    assert "<img src=x" not in page
    assert "<script>alert" not in refused
    assert "&lt;script&gt;alert" in refused


def test_keys_are_in_no_log(sqlite: Databases, tmp_path: Path) -> None:
    """Neither those that open nor those that are wrong, from a header, a form, a cookie or an address, at any level."""
    url, log = sqlite.copy_of("seeded", migrate_and_seed), tmp_path / "log"
    with opened(url) as database:
        right, wrong = make_key(database, "ci", ["read"]).text, new_key()
    with running(log, RIGFIT_DATABASE_URL=url, RIGFIT_REQUIRE_KEY_TO_READ="true", RIGFIT_LOG_LEVEL="debug") as service:
        wait_until_ready(service.process, f"{service.address}/readyz")
        with httpx2.Client(base_url=service.address) as client:
            for key, status in ((right, 200), (wrong, 401)):
                assert client.get("/gpus", headers={"X-API-Key": key}).status_code == status
                assert client.post("/sign-in", data={"key": key}).status_code in {303, 401}
                assert client.get("/gpus", headers={"cookie": f"rigfit_key={key}"}).status_code == status
            client.cookies.clear()
            assert client.get("/gpus", params={"key": right}).status_code == 401
    written = log.read_text("utf-8")
    assert "GET /gpus" in written
    for key in (right, wrong):
        assert key.rpartition("_")[2] not in written


def test_a_first_start_takes_writes_of_this_machine_alone(service: RunningService) -> None:
    """Over a real socket: without a key, from this machine, not handed on and not sent by another site's page."""
    with httpx2.Client(base_url=service.address) as client:
        expect_problem(client.post("/models", json={"url": "a b c"}), "invalid-request")
        for headers in ({"x-forwarded-for": "10.0.0.9"}, {"origin": "https://evil.example"}, {"host": "evil.example"}):
            expect_problem(client.post("/models", json={"url": "a b c"}, headers=headers), "unauthorized")
