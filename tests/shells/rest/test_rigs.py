"""GET /rigs, GET /rigs/{slug} and POST /rigs/parse."""

import pytest
from starlette.testclient import TestClient

from service.contract.rigs import EXAMPLE_OUTPUT

EXPECTED = {"gpus": [{"gpu": "rtx-3090", "power_limit_w": 280.0, "pcie_lanes": 8, "count": 2}]}


def test_rigs_are_listed_and_shown(client: TestClient) -> None:
    """Every rig has a slug, a source and what it consists of, in the list and alone."""
    listed = client.get("/rigs").json()
    assert len(listed) >= 10
    assert [rig["slug"] for rig in listed] == sorted(rig["slug"] for rig in listed)
    assert all(rig["source"] and rig["rig"]["gpus"] for rig in listed)
    assert client.get(f"/rigs/{listed[0]['slug']}").json() == listed[0]


def test_an_unknown_rig_is_not_found(client: TestClient) -> None:
    """A name that is none gives a problem with those like it."""
    answer = client.get("/rigs/4x-3090-300")
    assert answer.status_code == 404
    assert answer.json()["type"] == "/problems/unknown-rig"
    assert "4x-3090-300w" in answer.json()["suggestions"]
    asked = client.post("/plan", json={"model": "llama-3.1-8b:Q4_K_M", "rig": {"preset": "no such rig"}})
    assert asked.json()["type"] == "/problems/unknown-rig"


@pytest.mark.parametrize("as_json", [True, False])
def test_output_is_read_from_text_and_from_json(client: TestClient, as_json: bool) -> None:
    """Pasted as it is or stated in JSON, the same rig comes out and can be planned with."""
    if as_json:
        answer = client.post("/rigs/parse", json={"text": EXAMPLE_OUTPUT})
    else:
        answer = client.post("/rigs/parse", content=EXAMPLE_OUTPUT, headers={"content-type": "text/plain"})
    assert answer.status_code == 200
    assert answer.json()["rig"] == EXPECTED
    plan = client.post("/plan", json={"model": "llama-3.1-8b:Q4_K_M", "rig": answer.json()["rig"]}).json()
    assert plan["power"]["gpus_peak_w"] == 560


@pytest.mark.parametrize(
    ("body", "content_type", "status", "slug"),
    [
        (b"hello", "text/plain", 422, "invalid-request"),
        (b"\xff\xfe\x00", "text/plain", 422, "invalid-request"),
        (b"", "text/plain", 422, "invalid-request"),
        (b"{", "application/json", 422, "invalid-request"),
        (b'{"text": "x", "rig": {}}', "application/json", 422, "invalid-request"),
        (b"hello", "application/xml", 415, "unsupported-media"),
        (b"GPU 0: NVIDIA GeForce RTX 9990 (UUID: GPU-0)", "text/plain", 404, "unknown-gpu"),
    ],
)
def test_what_is_no_output_is_a_problem(
    client: TestClient, body: bytes, content_type: str, status: int, slug: str
) -> None:
    """Garbage, other media types and unknown cards are problems of the contract."""
    answer = client.post("/rigs/parse", content=body, headers={"content-type": content_type})
    assert answer.status_code == status
    assert answer.json()["type"] == f"/problems/{slug}"


def test_the_hardware_side_of_a_plan_is_part_of_the_answer(client: TestClient) -> None:
    """Power with the contract's names, links, and warnings with their numbers."""
    question = {
        "model": "llama-3.3-70b:Q4_K_M",
        "rig": {"gpus": ["2x rtx-3090"], "psu": {"rated_w": 850}, "circuit": {"volts": 120, "amps": 15}},
        "workload": {"context_tokens": 8192},
    }
    plan = client.post("/plan", json=question).json()
    names = {"gpus_peak_w", "gpus_decode_w", "system_peak_w", "recommended_psu_w", "wall_peak_w"}
    assert names <= plan["power"].keys()
    assert plan["links"]["paths"][0]["kind"] == "nvlink"
    (sustained,) = [warning for warning in plan["warnings"] if warning["code"] == "psu-sustained"]
    assert sustained["severity"] == "error"
    assert sustained["numbers"]["psu_rated_w"] == 850
