"""JSON of requests and answers is what their schemas would write."""

from typing import Any

import pytest

from service.contract.json_bytes import json_bytes
from service.contract.validation import validate_request
from tests.planner import builtin_planner

SIMPLE: dict[str, Any] = {"model": "llama-3.3-70b:Q4_K_M", "rig": {"gpus": ["2x rtx-3090"]}}
SPOKEN: dict[str, Any] = {
    "model": "llama-3.3-70b:Q4_K_M",
    "rig": {
        "gpus": ["rtx-3090", {"gpu": {"name": 'lab \u00e4\u2028"\\', "vram_bytes": 2**35}, "power_limit_w": 280.5}],
        "host": {"cpu": "Ryzen 9"},
        "psu": {"rated_w": 1e24},
    },
    "workload": {"context_tokens": 8192, "parallel": 2},
    "engine": {"n_ubatch": 256, "tensor_split": [0.1, 123456789.125], "override_tensor": ["ffn_up=CPU"]},
    "assumptions": {"bandwidth_fraction": 0.00001},
}
VLLM: dict[str, Any] = {"model": "qwen3-14b:BF16", "rig": {"gpus": ["2x rtx-3090"]}, "engine": {"name": "vllm"}}
DRAFTED: dict[str, Any] = {**SIMPLE, "engine": {"draft": "llama-3.2-1b:Q8_0"}, "workload": {"context_tokens": 4096}}


@pytest.mark.parametrize("stated", [SIMPLE, SPOKEN, VLLM, DRAFTED], ids=["simple", "spoken", "vllm", "drafted"])
def test_it_is_what_the_schemas_write(stated: dict[str, Any]) -> None:
    """To the byte, for a request and for its plan."""
    request = validate_request(stated)
    assert json_bytes(request) == request.model_dump_json().encode()
    plan = builtin_planner().plan(request)
    assert json_bytes(plan) == plan.model_dump_json().encode()
