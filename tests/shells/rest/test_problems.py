"""Every way to ask wrongly is a clear problem, and none shows a traceback."""

from typing import Any

import pytest
from starlette.testclient import TestClient

from service.contract.problem import MEDIA_TYPE, Problem
from service.contract.problem_kinds import PROBLEM_KINDS

MODEL = "llama-3.1-8b:Q4_K_M"


def expect_problem(answer: Any, slug: str) -> Problem:
    """Check that an answer is a problem of a kind, and read it."""
    assert answer.headers["content-type"] == MEDIA_TYPE, answer.text
    problem = Problem.model_validate(answer.json())
    assert problem.type == f"/problems/{slug}"
    assert problem.status == answer.status_code == PROBLEM_KINDS[slug].status
    assert "Traceback" not in answer.text
    return problem


def plan_with(**parts: Any) -> dict[str, Any]:
    return {"model": MODEL, "rig": {"gpus": ["rtx-3090"]}} | parts


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        (plan_with(workload={"context_tokens": 0}), "/workload/context_tokens"),
        (plan_with(workload={"context_tokens": -4096}), "/workload/context_tokens"),
        (plan_with(workload={"context_tokens": 4096.5}), "/workload/context_tokens"),
        (plan_with(workload={"context_tokens": "4096"}), "/workload/context_tokens"),
        (plan_with(workload={"context_tokens": True}), "/workload/context_tokens"),
        (plan_with(workload={"context_tokens": 10**30}), "/workload/context_tokens"),
        (plan_with(workload={"parallel": 0}), "/workload/parallel"),
        (plan_with(workload={"output_tokens": 0}), "/workload/output_tokens"),
        (plan_with(contextt=4096), "/contextt"),
        (plan_with(workload={"contex_tokens": 4096}), "/workload/contex_tokens"),
        (plan_with(engine={"n_gpu_layers": "most"}), "/engine/n_gpu_layers"),
        (plan_with(engine={"n_ubatch": 0}), "/engine/n_ubatch"),
        (plan_with(engine={"cache_type_k": "q3_k"}), "/engine/cache_type_k"),
        (plan_with(engine={"tensor_split": []}), "/engine/tensor_split"),
        (plan_with(engine={"tensor_split": [-1]}), "/engine/tensor_split/0"),
        (plan_with(engine={"name": "vllm", "n_batch": 1}), "/engine/n_batch"),
        (plan_with(engine=None), "/engine"),
        (plan_with(assumptions={"bandwidth_fraction": 0}), "/assumptions/bandwidth_fraction"),
        ({"rig": {"gpus": []}}, "/model"),
        ({"model": ""}, "/model"),
        ({"model": {"url": "https://x.example", "path": "x"}}, "/model/url"),
        ({"model": {"name": "llama"}}, "/model/url"),
        ({"model": MODEL, "rig": {"gpus": [None]}}, "/rig/gpus/0"),
        ({"model": MODEL, "rig": {"gpus": [{"gpu": "rtx-3090", "count": 0}]}}, "/rig/gpus/0/count"),
        ({"model": MODEL, "rig": {"gpus": [{"gpu": {"name": "x"}}]}}, "/rig/gpus/0/gpu/vram_bytes"),
        ({"model": MODEL, "rig": {"gpus": [{"gpu": {"name": "x", "vram_bytes": 0}}]}}, "/rig/gpus/0/gpu/vram_bytes"),
        ({"model": MODEL, "rig": {"gpus": "rtx-3090"}}, "/rig/gpus"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_field_that_is_refused_is_named(client: TestClient, body: dict[str, Any], pointer: str) -> None:
    """The problem points at the field, in the caller's own spelling."""
    problem = expect_problem(client.post("/plan", json=body), "invalid-request")
    assert pointer in [error.pointer for error in problem.errors]
    assert pointer in problem.detail


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"not json",
        b"\xff\xfe\x00",
        b"[]",
        b"null",
        b'"llama"',
        b"[" * 100_000,
        b'{"model": "x", "workload": {"context_tokens": NaN}}',
        b'{"model": "x", "assumptions": {"bandwidth_fraction": Infinity}}',
        b'{"model": "x", "rig": {"host": {"ram_bandwidth_bytes_per_s": 1e999}}}',
        b'{"model": "x", "workload": {"context_tokens": ' + b"9" * 5000 + b"}}",
    ],
    ids=range(12),
)
def test_a_body_that_is_no_request(client: TestClient, body: bytes) -> None:
    """What is not JSON, or no object, or not a number, is an invalid request."""
    answer = client.post("/plan", content=body, headers={"content-type": "application/json"})
    assert expect_problem(answer, "invalid-request").detail


def test_not_a_number_is_called_so(client: TestClient) -> None:
    """NaN is refused by its name."""
    body = b'{"model": "x", "assumptions": {"bandwidth_fraction": NaN}}'
    answer = client.post("/plan", content=body, headers={"content-type": "application/json"})
    assert "NaN" in expect_problem(answer, "invalid-request").detail


def test_a_misspelt_field_comes_with_the_right_one(client: TestClient) -> None:
    """An unknown field is refused with the field it may have meant."""
    problem = expect_problem(client.post("/plan", json=plan_with(workload={"contex_tokens": 1})), "invalid-request")
    assert "did you mean context_tokens" in problem.detail


@pytest.mark.parametrize(
    ("body", "slug"),
    [
        ({"model": "nothing-7b"}, "unknown-model"),
        ({"model": "llama-3.1-8b:Q9_Z"}, "unknown-model"),
        (plan_with(rig={"gpus": ["rtx-9999"]}), "unknown-gpu"),
        (plan_with(rig={"gpus": ["A100"]}), "unknown-gpu"),
        (plan_with(engine={"name": "lama.cpp"}), "unknown-engine"),
        (plan_with(engine={"name": "vllm"}), "unsupported"),
        (plan_with(engine={"split_mode": "row"}), "unsupported"),
        (plan_with(rig={"gpus": ["17x rtx-3090"]}), "unsupported"),
        (plan_with(engine={"tensor_split": [1, 1]}), "contradiction"),
        ({"model": {"url": "https://models.example/x.gguf"}}, "forbidden-host"),
        ({"model": {"path": "/etc/passwd"}}, "invalid-request"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_question_without_an_answer(client: TestClient, body: dict[str, Any], slug: str) -> None:
    """Names nobody knows and what the engine refuses are problems of their kind."""
    expect_problem(client.post("/plan", json=body), slug)


def test_unknown_names_have_suggestions(client: TestClient) -> None:
    """A name that is close to known ones comes with them."""
    for body in ({"model": "llama-3.1-9b"}, plan_with(rig={"gpus": ["A100"]}), plan_with(engine={"name": "vlm"})):
        assert client.post("/plan", json=body).json()["suggestions"]


@pytest.mark.parametrize("path", ["/plan", "/plans"])
def test_only_json_is_read(client: TestClient, path: str) -> None:
    """A body of another media type, or of none, is refused before it is read."""
    for headers in ({"content-type": "text/csv"}, {"content-type": "application/x-www-form-urlencoded"}, {}):
        expect_problem(client.post(path, content=b"model=x", headers=headers), "unsupported-media")


def test_json_of_another_name_is_read(client: TestClient) -> None:
    """A media type with the suffix +json, and a charset, are JSON."""
    for media_type in ("application/vnd.api+json", "application/json; charset=utf-8"):
        answer = client.post("/plan", content=b'{"model": "llama-3.2-1b:Q4_K_M"}', headers={"content-type": media_type})
        assert answer.status_code == 200


@pytest.mark.parametrize("path", ["/plan", "/plans"])
def test_a_long_body_is_refused(client: TestClient, path: str) -> None:
    """Ten megabytes are too large, whether their length is stated or not."""
    headers = {"content-type": "application/json"}
    expect_problem(client.post(path, content=b" " * 10_000_000, headers=headers), "too-large")
    expect_problem(client.post(path, content=iter([b" " * 1_000_000] * 10), headers=headers), "too-large")


def test_an_address_without_anything(client: TestClient) -> None:
    """What is not there is not found."""
    assert expect_problem(client.get("/nowhere"), "not-found").instance == "/nowhere"


def test_a_method_that_is_not_answered(client: TestClient) -> None:
    """The refusal of a method lists those that are answered."""
    answer = client.delete("/plan")
    expect_problem(answer, "method-not-allowed")
    assert answer.headers["allow"] == "GET, POST"


def test_a_path_that_is_spelled_out_lists_its_own_methods(client: TestClient) -> None:
    """What a pattern would make of the same path is another resource."""
    assert client.options("/rigs/parse").headers["allow"] == "POST"
    assert client.options("/rigs/4x-3090-300w").headers["allow"] == "GET"


def test_unknown_query_parameters_are_refused(client: TestClient) -> None:
    """A query with a parameter nobody reads is an invalid request that names it."""
    problem = expect_problem(client.get("/plan?model=llama-3.2-1b&gpu=rtx-3090"), "invalid-request")
    assert problem.errors[0].pointer == "/gpu"
    assert "gpus" in problem.errors[0].message


@pytest.mark.parametrize(
    "query", ["context_tokens=many", "context_tokens=0", "tensor_split=1,x", "format=xml", "engine=x"]
)
def test_a_query_with_a_bad_value(client: TestClient, query: str) -> None:
    """Values of a query are checked as those of a body are."""
    answer = client.get(f"/plan?model=llama-3.2-1b:Q4_K_M&gpus=rtx-3090&{query}")
    expect_problem(answer, "unknown-engine" if query.startswith("engine") else "invalid-request")


@pytest.mark.parametrize("slug", sorted(PROBLEM_KINDS))
def test_every_kind_of_problem_has_a_page(client: TestClient, slug: str) -> None:
    """The type of a problem is an address that says what it means."""
    page = client.get(f"/problems/{slug}").json()
    assert page["type"] == f"/problems/{slug}"
    assert page["status"] == PROBLEM_KINDS[slug].status


def test_an_unknown_kind_of_problem(client: TestClient) -> None:
    """There is no page for a kind of problem that does not exist."""
    expect_problem(client.get("/problems/nonsense"), "not-found")
