"""Spans of a real service at a real collector: what they say, what they never say, and what goes on without one."""

import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from service.core.problems import Unsupported
from service.shells.serving.child_spans import MOST_SPANS
from service.shells.serving.otlp_variables import check_variables
from tests.collectors import Collector, attributes_of, collecting
from tests.databases import Databases, migrate_and_seed
from tests.faults.test_database_away import eventually
from tests.servers import COMMAND, RunningService, running, wait_until_ready

QUESTION: dict[str, Any] = {"model": "llama-3.1-8b:Q4_K_M", "rig": {"gpus": ["rtx-3090"]}}
# a tenth of a second after a request
SOON = {"RIGFIT_TRACES": "true", "OTEL_BSP_SCHEDULE_DELAY": "100", "RIGFIT_LOG_FORMAT": "json"}
SECRETS = {
    "key": "rgf_00000000000000000000000000000000_sekretofakey",
    "token": "sekret-of-a-bearer",
    "cookie": "sekret-in-a-cookie",
    "query": "sekret-in-a-query",
    "body": "sekret-in-a-body",
}


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    """A collector that takes everything."""
    with collecting() as collector:
        yield collector


@pytest.fixture(scope="module")
def service(
    sqlite: Databases, collector: Collector, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningService]:
    """A service that exports to it."""
    log = tmp_path_factory.mktemp("traces") / "log"
    url = sqlite.copy_of("seeded", migrate_and_seed)
    with running(log, RIGFIT_DATABASE_URL=url, OTEL_EXPORTER_OTLP_ENDPOINT=collector.address, **SOON) as service:
        wait_until_ready(service.process, f"{service.address}/readyz")
        yield service


@pytest.fixture
def client(service: RunningService) -> Iterator[httpx2.Client]:
    """A client of it."""
    with httpx2.Client(base_url=service.address, timeout=20) as client:
        yield client


def new_trace(flags: str = "01") -> tuple[str, str, dict[str, str]]:
    """A caller's trace and span, and the header that says so. Source: W3C Trace Context, 3.2."""
    trace_id, span_id = secrets.token_hex(16), secrets.token_hex(8)
    return trace_id, span_id, {"traceparent": f"00-{trace_id}-{span_id}-{flags}"}


def test_a_request_and_its_plan_belong_to_the_callers_trace(client: httpx2.Client, collector: Collector) -> None:
    """The request's span says where, how it went and which request; below it the plan's, with engine and verdict."""
    trace_id, span_id, headers = new_trace()
    answer = client.post("/plan", json=QUESTION, headers=headers | {"X-Request-ID": "asked-once"})
    assert answer.status_code == 200
    spans = collector.trace(trace_id, 2)
    (request,), (plan,) = spans["POST /plan"], spans["plan"]
    assert (request.kind, request.parent_span_id.hex()) == (Span.SPAN_KIND_SERVER, span_id)
    said = attributes_of(request)
    assert (said["http.route"], said["http.request.method"], said["http.response.status_code"]) == (
        "/plan",
        "POST",
        200,
    )
    assert said["http.response.header.x-request-id"] == ["asked-once"]
    assert (plan.kind, plan.parent_span_id) == (Span.SPAN_KIND_INTERNAL, request.span_id)
    assert attributes_of(plan) == {"rigfit.engine": "llama.cpp", "rigfit.verdict": answer.json()["verdict"]}
    assert request.start_time_unix_nano <= plan.start_time_unix_nano < plan.end_time_unix_nano
    assert plan.end_time_unix_nano <= request.end_time_unix_nano
    assert collector.resource()["service.name"] == "rigfit"


def test_an_answer_from_memory_is_a_span_without_a_plan(client: httpx2.Client, collector: Collector) -> None:
    """What is answered ahead of the router has its address's template too, and says that nothing was computed."""
    asked = QUESTION | {"workload": {"context_tokens": 4096}}
    assert client.post("/plan", json=asked).status_code == 200
    trace_id, _, headers = new_trace()
    assert client.post("/plan", json=asked, headers=headers).status_code == 200
    spans = collector.trace(trace_id, 1)
    assert list(spans) == ["POST /plan"]
    said = attributes_of(spans["POST /plan"][0])
    assert (said["http.route"], said["rigfit.kept_answer"]) == ("/plan", True)


def test_statements_are_spans_with_places_for_values(client: httpx2.Client, collector: Collector) -> None:
    """What the database was asked stands below the request, without what was asked for."""
    trace_id, _, headers = new_trace()
    assert client.get("/plans/pln_nobody-has-this", headers=headers).status_code == 404
    spans = collector.trace(trace_id, 2)
    (request,) = spans["GET /plans/{plan_id}"]
    assert attributes_of(request)["rigfit.problem"] == "not-found"
    (select,) = spans["SELECT"]
    said = attributes_of(select)
    assert (select.kind, select.parent_span_id) == (Span.SPAN_KIND_CLIENT, request.span_id)
    assert said["db.system.name"] == "sqlite"
    assert "FROM saved_plans" in said["db.query.text"]
    assert "nobody-has-this" not in said["db.query.text"]


def test_a_refused_plan_has_no_verdict(client: httpx2.Client, collector: Collector) -> None:
    """Its request says which problem it was, and is no error of the service's."""
    trace_id, _, headers = new_trace()
    refused = client.post("/plan", json=QUESTION | {"rig": {"gpus": ["A100"]}}, headers=headers)
    assert refused.status_code == 404
    spans = collector.trace(trace_id, 2)
    assert attributes_of(spans["plan"][0]) == {"rigfit.engine": "llama.cpp"}
    (request,) = spans["POST /plan"]
    assert attributes_of(request)["rigfit.problem"] == "unknown-gpu"
    assert request.status.code == Status.STATUS_CODE_UNSET


def test_a_request_has_at_most_so_many_spans(client: httpx2.Client, collector: Collector) -> None:
    """A comparison of more plans leaves room for other requests."""
    trace_id, _, headers = new_trace()
    contexts = list(range(512, 512 * (MOST_SPANS // 2 + 2), 512))
    asked = {"models": [QUESTION["model"]], "rigs": ["rtx-3090", "rtx-4090"], "contexts": contexts}
    assert client.post("/compare", json=asked, headers=headers).status_code == 200
    last, _, headers = new_trace()
    assert client.post("/plan", json=QUESTION, headers=headers).status_code == 200
    assert collector.trace(last, 1)
    spans = collector.trace(trace_id, 1 + MOST_SPANS)
    assert (len(spans["POST /compare"]), sum(map(len, spans.values()))) == (1, 1 + MOST_SPANS)


def test_no_secret_leaves_in_a_span(client: httpx2.Client, collector: Collector) -> None:
    """Neither keys, tokens and cookies nor a query's and a body's values are in what the collector gets."""
    trace_id, _, headers = new_trace()
    headers |= {"Authorization": f"Bearer {SECRETS['token']}", "Cookie": f"key={SECRETS['cookie']}"}
    with_key = headers | {"X-API-Key": SECRETS["key"]}
    for answer in (
        client.get("/gpus", params={"token": SECRETS["query"]}, headers=headers),
        client.get("/", params={"key": SECRETS["query"], "model": "x"}, headers=headers),
        client.post("/plan", json=QUESTION | {"model": SECRETS["body"]}, headers=headers),
        client.post("/models", json={"url": f"https://example.com/{SECRETS['body']}"}, headers=with_key),
        client.post("/sign-in", data={"key": SECRETS["key"]}, headers=with_key),
    ):
        assert answer.status_code != 500
    spans = collector.trace(trace_id, 5)
    (asked,) = spans["GET /gpus"]
    assert attributes_of(asked)["url.query"] == "REDACTED"
    assert [name for name, secret in SECRETS.items() if any(secret.encode() in body for body in collector.bodies)] == []


def test_lines_of_the_log_name_the_trace(client: httpx2.Client, service: RunningService) -> None:
    """Whether it is sampled or not; a request without a caller's trace begins one."""
    ids = []
    for flags in ("01", "00"):
        trace_id, _, headers = new_trace(flags)
        client.post("/plan", json=QUESTION, headers=headers | {"X-Request-ID": f"logged-{flags}"})
        ids.append(trace_id)
    client.post("/plan", json=QUESTION, headers={"X-Request-ID": "logged-none"})
    # a line is written when its answer has been sent
    assert eventually(lambda: "logged-none" in logged(service))
    lines = logged(service)
    assert [lines[f"logged-{flags}"]["trace_id"] for flags in ("01", "00")] == ids
    assert len(bytes.fromhex(lines["logged-none"]["trace_id"])) == 16


def logged(service: RunningService) -> dict[str, dict[str, Any]]:
    """Lines of requests by their ids."""
    assert service.log is not None
    events = [json.loads(line) for line in service.log.read_text("utf-8").splitlines()]
    return {event["request_id"]: event for event in events if event["event"] == "request"}


def test_what_a_caller_does_not_sample_and_probes_make_no_spans(client: httpx2.Client, collector: Collector) -> None:
    """The caller's decision is followed, and health checks leave nothing."""
    unsampled, _, headers = new_trace("00")
    client.post("/plan", json=QUESTION, headers=headers)
    probed, _, headers = new_trace()
    client.get("/healthz", headers=headers)
    last, _, headers = new_trace()
    client.post("/plan", json=QUESTION, headers=headers)
    assert collector.trace(last, 1)
    assert {span.trace_id.hex() for span in collector.spans()} & {unsampled, probed} == set()


def test_the_last_spans_are_exported_at_the_end(sqlite: Databases, collector: Collector) -> None:
    """SIGTERM before the queue's next turn loses nothing."""
    late = SOON | {"OTEL_BSP_SCHEDULE_DELAY": "600000", "OTEL_SERVICE_NAME": "named-by-its-operator"}
    url = sqlite.copy_of("seeded", migrate_and_seed)
    with running(RIGFIT_DATABASE_URL=url, OTEL_EXPORTER_OTLP_ENDPOINT=collector.address, **late) as service:
        wait_until_ready(service.process, f"{service.address}/readyz")
        trace_id, _, headers = new_trace()
        assert httpx2.post(f"{service.address}/plan", json=QUESTION, headers=headers, timeout=20).status_code == 200
        service.process.send_signal(signal.SIGTERM)
        assert service.process.wait(20) in {0, -signal.SIGTERM}
    assert collector.trace(trace_id, 2)["plan"]
    assert b"named-by-its-operator" in collector.bodies[-1]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json"),
        ("OTEL_TRACES_EXPORTER", "zipkin"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4317"),
    ],
)
def test_what_cannot_be_exported_is_refused(name: str, value: str) -> None:
    """Variables that would be passed over, and spans lost, are named."""
    with pytest.raises(Unsupported, match=name):
        check_variables({name: value})


def test_the_command_ends_where_nothing_can_be_exported() -> None:
    """With a sentence, before any process is started."""
    environment = os.environ | {"RIGFIT_TRACES": "true", "RIGFIT_WORKERS": "2", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
    refused = subprocess.run(
        [COMMAND, "serve", "--port", "0"], env=environment, check=False, capture_output=True, text=True, timeout=30
    )
    assert refused.returncode == 2
    assert "OTEL_EXPORTER_OTLP_PROTOCOL is grpc" in refused.stderr
    assert "Traceback" not in refused.stderr


OFF = """
import sys
from service.app import create_app
from service.settings import Settings
app = create_app(Settings())
print([name for name in sys.modules if name.startswith(("opentelemetry.sdk", "opentelemetry.exporter", "google"))])
print(app._native_telemetry.enabled())
"""


def test_nothing_is_loaded_where_traces_are_off() -> None:
    """Whatever OpenTelemetry's and the framework's own variables say."""
    said = {"FASTAPI_OTEL_AUTO_CONFIGURE": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}
    ran = subprocess.run(
        [sys.executable, "-c", OFF], env=os.environ | said, check=True, capture_output=True, text=True, timeout=60
    )
    assert ran.stdout.splitlines() == ["[]", "False"]
