"""The form has a control for every field of the contract, without being told of it."""

import pytest
from pydantic import BaseModel

from service.contract.engine import LlamaCppEngine, VllmEngine
from service.contract.plan_query import PlanQuery
from service.contract.request import AssumptionsRequest, WorkloadRequest
from service.contract.rig import CircuitRequest, GpuRequest, HostRequest, InlineGpu, PsuRequest, RigRequest
from service.shells.web import controls

# stated by controls of their own
ELSEWHERE = {"name", "context_tokens", "gpu", "count"}


@pytest.mark.parametrize(
    ("model", "shown"),
    [
        (LlamaCppEngine, controls.engine_controls()["llama.cpp"]),
        (VllmEngine, controls.engine_controls()["vllm"]),
        (WorkloadRequest, controls.workload_controls()),
        (AssumptionsRequest, controls.assumption_controls()),
        (GpuRequest, controls.card_controls()),
        (InlineGpu, controls.own_card_controls()),
    ],
)
def test_every_field_has_a_control(model: type[BaseModel], shown: tuple[controls.Control, ...]) -> None:
    """A field that the contract has, the form has."""
    assert {control.name for control in shown} == set(model.model_fields) - ELSEWHERE


def test_every_field_of_the_machine_has_a_control() -> None:
    """Host, power supply and circuit are flat in the form, under the names that addresses have for them."""
    names = {control.name for control in controls.machine_controls()}
    assert names >= set(HostRequest.model_fields)
    assert names >= {f"psu_{name}" for name in PsuRequest.model_fields}
    assert names >= {f"circuit_{name}" for name in CircuitRequest.model_fields}
    assert names >= set(RigRequest.model_fields) - {"gpus", "host", "psu", "circuit"}


def test_every_control_is_a_parameter_of_an_address() -> None:
    """What the form sends is what an address can state."""
    sent = [
        *controls.workload_controls(), *controls.machine_controls(), *controls.assumption_controls(),
        *(control for engine in controls.engine_controls().values() for control in engine),
    ]  # fmt: skip
    assert {control.name for control in sent} <= set(PlanQuery.model_fields)


def test_a_field_with_choices_offers_them() -> None:
    """Values that the contract lists are chosen from, the default by stating nothing."""
    shown = {control.name: control for control in controls.engine_controls()["llama.cpp"]}
    assert shown["split_mode"].options == [
        ("", "automatic"), ("none", "none"), ("layer", "layer"), ("row", "row"), ("tensor", "tensor")
    ]  # fmt: skip
    assert shown["tool"].options == [("", "llama-server (default)"), ("llama-bench", "llama-bench")]
    assert shown["kv_offload"].options == [("", "on (default)"), ("false", "off")]
    assert (shown["split_mode"].flag, shown["n_ubatch"].flag) == ("-sm", "-ub")
