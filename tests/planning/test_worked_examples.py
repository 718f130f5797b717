"""The numbers that the field explains multi-GPU inference with: worked_examples.json, written by hand from them."""

import json
from pathlib import Path
from typing import Any

import pytest

from service.contract.plan import DevicePlan, HostPlan, Plan
from service.core.architectures.hparams import read_hparams
from service.core.engines.llamacpp.context import resolve_context
from service.core.engines.llamacpp.kv_cache import kv_index
from service.core.engines.llamacpp.settings import LlamaCppSettings
from service.core.engines.llamacpp.versions import NEWEST
from service.core.links import hidden_state_bytes, pcie_bytes_per_s
from service.core.problems import PlanProblem
from service.core.units import GIB
from tests.models import load_model
from tests.planner import ask

EXAMPLES: dict[str, dict[str, Any]] = {
    example["id"]: example
    for example in json.loads((Path(__file__).parent / "worked_examples.json").read_text("utf-8"))
}
# as "within 10 of the last digit": weights and cache are stated to two decimals of a GiB or GB
ROUNDING = 0.006


def plan_of(example: dict[str, Any]) -> Plan:
    return ask(
        example["model"],
        *example["gpus"],
        context_tokens=example["context_tokens"],
        engine=example.get("engine", {}),
        assumptions=example.get("assumptions"),
    )


def with_expectation(*names: str) -> list[str]:
    """Examples on a rig that expect any of `names`."""
    return [name for name, example in EXAMPLES.items() if "gpus" in example and set(names) & set(example["expect"])]


@pytest.mark.parametrize("name", with_expectation("decode_ms"))
def test_decode_time(name: str) -> None:
    """A token takes the time, and tokens come at the rate, that the example gives."""
    plan, expect = plan_of(EXAMPLES[name]), EXAMPLES[name]["expect"]
    assert plan.speed is not None
    rate = plan.speed.decode_tokens_per_s.mid
    assert expect["decode_ms"][0] <= 1000 / rate <= expect["decode_ms"][1]
    low, high = expect.get("decode_tokens_per_s", (rate, rate))
    assert low <= rate <= high


@pytest.mark.parametrize("name", with_expectation("read_gb", "read_gb_per_device"))
def test_bytes_read_per_token(name: str) -> None:
    """Each card reads its share of the weights, and nobody the token embedding."""
    plan, expect = plan_of(EXAMPLES[name]), EXAMPLES[name]["expect"]
    expected = expect.get("read_gb_per_device", [expect.get("read_gb")])
    assert [device.read_bytes_per_token / 1e9 for device in plan.devices] == pytest.approx(expected, abs=ROUNDING)
    assert plan.host.read_bytes_per_token == 0


@pytest.mark.parametrize("name", with_expectation("weights_plus_kv_gib"))
def test_weights_and_cache_together(name: str) -> None:
    """Weights and cache over all cards and the host are what the example adds up."""
    plan, expect = plan_of(EXAMPLES[name]), EXAMPLES[name]["expect"]
    places: list[DevicePlan | HostPlan] = [*plan.devices, plan.host]
    total = sum(place.weights_bytes + place.kv_bytes for place in places)
    assert total / GIB == pytest.approx(expect["weights_plus_kv_gib"], abs=ROUNDING)
    assert plan.fits is expect.get("fits", True)


@pytest.mark.parametrize("name", with_expectation("advice"))
def test_advice(name: str) -> None:
    """Where a second card slows a model down that fits on the first, the plan says so."""
    plan, expect = plan_of(EXAMPLES[name]), EXAMPLES[name]["expect"]
    assert expect["advice"].replace("_", "-") in [advice.code for advice in plan.advice]


@pytest.mark.parametrize("name", with_expectation("problem"))
def test_refusal(name: str) -> None:
    """What the engine would refuse is refused with its kind of problem."""
    with pytest.raises(PlanProblem) as refused:
        plan_of(EXAMPLES[name])
    assert refused.value.slug == EXAMPLES[name]["expect"]["problem"]


def test_tensors_of_llama_70b() -> None:
    """Blocks, embedding and output layer have the sizes, and a token of context the bytes, that the example gives."""
    expect = EXAMPLES["llama70b-tensor-bytes"]["expect"]
    model = load_model("llama-3.3-70b:Q4_K_M")
    blocks = [tensor.size_bytes for tensor in model.tensors if tensor.name.startswith("blk.")]
    assert sum(tensor.size_bytes for tensor in model.tensors) == expect["tensor_data_bytes"]
    assert model.tensor_by_name["token_embd.weight"].size_bytes == expect["token_embd_bytes"]
    assert model.tensor_by_name["output.weight"].size_bytes == expect["output_bytes"]
    assert sum(blocks) / 80 == pytest.approx(expect["mean_block_bytes"], abs=1)
    hp = read_hparams(model)
    caches = kv_index(hp, resolve_context(hp, LlamaCppSettings(), 4096, 1, NEWEST))
    assert caches.bytes_between(0, 80, "cuda") / 4096 == expect["kv_bytes_per_token"]


def test_hidden_state_of_llama_70b() -> None:
    """What crosses a layer boundary takes the microseconds that the example gives."""
    expect = EXAMPLES["hidden-state-70b"]["expect"]
    size_bytes = hidden_state_bytes(read_hparams(load_model("llama-3.3-70b:Q4_K_M")).n_embd)
    assert size_bytes == expect["hidden_state_bytes_f32"]
    for link, (generation, lanes) in {"pcie4_x16": (4, 16), "pcie4_x4": (4, 4), "pcie3_x1": (3, 1)}.items():
        assert size_bytes / pcie_bytes_per_s(generation, lanes) * 1e6 == pytest.approx(expect[f"us_{link}"], rel=2e-3)


def test_every_expectation_is_checked() -> None:
    """No example expects something that no test looks at."""
    checked = {
        "advice", "decode_ms", "decode_tokens_per_s", "fits", "hidden_state_bytes_f32", "kv_bytes_per_token",
        "mean_block_bytes", "note", "output_bytes", "problem", "read_gb", "read_gb_per_device", "tensor_data_bytes",
        "token_embd_bytes", "us_pcie3_x1", "us_pcie4_x16", "us_pcie4_x4", "weights_plus_kv_gib",
    }  # fmt: skip
    assert {key for example in EXAMPLES.values() for key in example["expect"]} == checked
