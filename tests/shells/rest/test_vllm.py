"""Plans of vLLM over HTTP: as JSON, as a spreadsheet's row, kept, shown in a browser and drawn."""

from typing import Any

from fastapi.testclient import TestClient

QUESTION: dict[str, Any] = {
    "model": "qwen3-14b:BF16",
    "rig": {"gpus": ["rtx-3090", "rtx-3060-12gb"]},
    "workload": {"context_tokens": 8192},
    "engine": {"name": "vllm"},
}


def test_a_plan_as_json(client: TestClient) -> None:
    """The same contract, with the engine's own fields."""
    plan = client.post("/plan", json=QUESTION).json()
    assert plan["engine"]["name"] == "vllm"
    assert plan["engine"]["pipeline_parallel_size"] == 2
    assert plan["command"]["env"] == {
        "VLLM_PP_LAYER_PARTITION": ",".join(map(str, plan["engine"]["pp_layer_partition"]))
    }


def test_a_plan_by_query(client: TestClient) -> None:
    """Every field of vLLM can be stated in an address."""
    query: dict[str, Any] = {"model": "qwen3-32b:FP8", "gpus": "2x rtx-3090", "engine": "vllm", "context_tokens": 4096}
    stated = query | {"pipeline_parallel_size": 2, "pp_layer_partition": "33,31", "kv_cache_dtype": "fp8"}
    engine = client.get("/plan", params=stated).json()["engine"]
    assert (engine["pp_layer_partition"], engine["kv_cache_dtype"]) == ([33, 31], "fp8")
    header, row = client.get("/plan", params=query | {"format": "csv"}).text.splitlines()[:2]
    assert dict(zip(header.split(","), row.split(","), strict=False))["model"] == "qwen3-32b"


def test_a_plan_is_kept_and_shown(client: TestClient) -> None:
    """Under its id, as a page for a browser, with its command."""
    kept = client.post("/plans", json=QUESTION)
    assert kept.status_code == 201
    page = client.get(kept.headers["location"], headers={"accept": "text/html"})
    assert page.status_code == 200
    assert "vllm serve Qwen/Qwen3-14B" in page.text


def test_a_plan_is_drawn(client: TestClient) -> None:
    """Speed over depth and memory over context, as for any engine."""
    assert client.post("/plan/curves", json=QUESTION).status_code == 200


def test_a_refusal_is_a_problem(client: TestClient) -> None:
    """What vLLM refuses at start is a 409 with its reason."""
    answer = client.post("/plan", json=QUESTION | {"engine": {"name": "vllm", "tensor_parallel_size": 3}})
    assert answer.status_code == 409
    assert answer.headers["content-type"] == "application/problem+json"
    assert "World size (3)" in answer.json()["detail"]
