"""Addresses that ask for an alternative."""

from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from service.contract.plan import Plan
from service.contract.request import PlanRequest
from service.contract.validation import validate_request
from service.shells.web.links import adopted_question
from service.shells.web.question import read_question
from tests.planner import builtin_planner

QUESTION = {
    "model": "llama-3.3-70b:Q4_K_M",
    "rig": {"gpus": ["2x rtx-3090", {"gpu": "rtx-4090", "power_limit_w": 300}]},
    "workload": {"context_tokens": 16384, "parallel": 2},
}


def answered(engine: dict[str, Any]) -> tuple[PlanRequest, Plan]:
    request = validate_request(QUESTION | {"engine": engine})
    return request, builtin_planner().plan(request)


@pytest.mark.parametrize(
    "other",
    [
        {"split_mode": "layer", "tensor_split": [3, 2, 1]},
        {"cache_type_k": "q8_0", "cache_type_v": "q8_0"},
        {"n_gpu_layers": 40},
        {"flash_attn": False},
        {"n_batch": 512, "n_ubatch": 128},
    ],
)
def test_an_alternative_is_what_its_address_asks_for(other: dict[str, Any]) -> None:
    """Following the link gives the plan of the alternative, card by card."""
    (request, plan), (_, wanted) = answered({}), answered(other)
    alternative = {"engine": wanted.model_dump(mode="json")["engine"]}
    address = adopted_question(request, plan.model_dump(mode="json"), alternative)
    assert address is not None
    followed = builtin_planner().plan(read_question(parse_qsl(urlsplit(address).query)).request())
    assert followed.engine == wanted.engine
    assert followed.devices == wanted.devices
    assert followed.workload == wanted.workload


def test_what_was_asked_stays_asked() -> None:
    """An alternative leaves the model, the rig, the workload and the build as they were."""
    request, plan = answered({"date": "2026-09", "draft": {"spec_type": "draft-simple", "model": "llama-3.2-1b:Q8_0"}})
    alternative = plan.model_dump(mode="json")
    alternative["engine"] |= {"cache_type_k": "q4_0"}
    address = adopted_question(request, plan.model_dump(mode="json"), alternative)
    asked = read_question(parse_qsl(urlsplit(address or "").query)).request()
    assert asked.engine == request.engine.model_copy(update={"cache_type_k": "q4_0"})
    assert (asked.model, asked.rig, asked.workload) == (request.model, request.rig, request.workload)


def test_an_engine_without_words_here_has_no_address() -> None:
    """What the contract cannot ask for is not offered."""
    request, plan = answered({})
    alternative = {"engine": {"name": "another", "shards": 3}}
    assert adopted_question(request, plan.model_dump(mode="json"), alternative) is None
