"""A PlanRequest as the query that states it."""

from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.contract.plan_query import PlanQuery, cards_of_text, request_of_query
from service.contract.query_text import address_of_request, query_of_request
from service.contract.request import PlanRequest
from service.contract.validation import validate_request

NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=30)
PLAIN_NAMES = NAMES.filter(lambda name: cards_of_text(name) == [name])
INLINE = st.fixed_dictionaries(
    {"name": NAMES, "vram_bytes": st.integers(1, 2**60)},
    optional={"bandwidth_bytes_per_s": st.floats(1, 1e13), "backend": st.sampled_from(["cuda", "vulkan"])},
)
CARDS = PLAIN_NAMES | st.fixed_dictionaries(
    {"gpu": NAMES | INLINE},
    optional={"count": st.integers(1, 8), "free_bytes": st.integers(0, 2**60), "power_limit_w": st.floats(1, 1000)},
)
RIGS = st.fixed_dictionaries(
    {"gpus": st.lists(CARDS, max_size=4)},
    optional={
        "nvlink": st.booleans() | st.just([[0, 1], [2, 3]]),
        "p2p": st.booleans(),
        "slots": st.integers(1, 64),
        "host": st.fixed_dictionaries(
            {},
            optional={
                "ram_bytes": st.integers(0, 2**50),
                "cpu": NAMES,
                "cpu_w": st.floats(1, 999),
                "dimms": st.integers(1, 9),
            },
        ),
        "psu": st.fixed_dictionaries(
            {},
            optional={
                "rated_w": st.floats(1, 3000),
                "atx_version": st.just("3.1"),
                "count": st.integers(1, 4),
                "efficiency": st.just("gold"),
                "feeds": st.just([[0], [1, 2]]),
                "worst_case": st.booleans(),
                "connectors": st.fixed_dictionaries({}, optional={"pcie_8pin": st.integers(0, 9)}),
            },
        ),
        "circuit": st.fixed_dictionaries(
            {},
            optional={
                "volts": st.just(230),
                "amps": st.just(16),
                "continuous": st.booleans(),
                "shared": st.booleans(),
                "tariff_per_kwh": st.floats(0.01, 1),
            },
        ),
        "preset": NAMES,
        "chassis": st.sampled_from(["desktop", "rack"]),
        "platform": NAMES,
    },
)
LLAMA_CPP = st.fixed_dictionaries(
    {},
    optional={
        "n_gpu_layers": st.just("all") | st.integers(-2, 100),
        "tensor_split": st.lists(st.floats(0, 1e6), min_size=1, max_size=4),
        "override_tensor": st.lists(NAMES, max_size=3),
        "flash_attn": st.booleans(),
        "n_ubatch": st.integers(1, 4096),
        "draft": st.fixed_dictionaries({"model": PLAIN_NAMES, "n_max": st.integers(0, 9)}),
        "mmproj": st.fixed_dictionaries({"weights_bytes": st.integers(1, 10**10)}),
    },
)
VLLM = st.fixed_dictionaries(
    {"name": st.just("vllm")},
    optional={
        "tensor_parallel_size": st.integers(1, 8),
        "pp_layer_partition": st.lists(st.integers(1, 80), min_size=1, max_size=3),
        "gpu_memory_utilization": st.floats(0.1, 1),
        "enforce_eager": st.booleans(),
    },
)
REQUESTS = st.fixed_dictionaries(
    {"model": PLAIN_NAMES | st.fixed_dictionaries({"url": NAMES})},
    optional={
        "rig": RIGS,
        "engine": LLAMA_CPP | VLLM,
        "workload": st.fixed_dictionaries(
            {}, optional={"context_tokens": st.integers(1, 2**31 - 1), "parallel": st.integers(1, 256)}
        ),
        "assumptions": st.fixed_dictionaries({"bandwidth_fraction": st.floats(0.1, 1)}),
    },
)


def asked(address: str) -> PlanRequest:
    """The request that an address states."""
    found = parse_qs(urlsplit(address).query, keep_blank_values=True)
    lists = {name: values for name, values in found.items() if name in {"gpus", "override_tensor"}}
    return request_of_query(PlanQuery.model_validate({name: values[-1] for name, values in found.items()} | lists))


@given(request=REQUESTS)
def test_a_question_survives_its_address(request: dict[str, Any]) -> None:
    """Whatever is asked, its address asks the same."""
    stated = validate_request(request)
    assert asked(address_of_request("/", stated)) == stated


@pytest.mark.parametrize("name", ["a+b", "a;b", "a,b", "a\nb", "{a}"])
def test_a_name_with_a_separator_stays_one_card(name: str) -> None:
    """What would be read as several cards, or as an object, is stated as the name of one."""
    (card,) = asked(address_of_request("/", validate_request({"model": "m", "rig": {"gpus": [name]}}))).rig.gpus
    assert getattr(card, "gpu", card) == name


@pytest.mark.parametrize("url", ["https://models.example/m.gguf?a=b", "hf.co/owner/repo:Q4_K_M"])
def test_an_address_of_a_model_needs_no_object(url: str) -> None:
    """A model of another host is named by its address alone."""
    stated = validate_request({"model": {"url": url}})
    assert query_of_request(stated) == [("model", url)]
    assert asked(address_of_request("/", stated)) == stated


@pytest.mark.parametrize(
    ("request_parts", "parameters"),
    [
        ({"rig": {"gpus": ["2x rtx-3090"]}}, [("gpus", "2x rtx-3090")]),
        ({"rig": {"psu": {"rated_w": 1200}}}, [("psu_rated_w", "1200")]),
        ({"workload": {"context_tokens": 4096, "parallel": 1}}, [("context_tokens", "4096")]),
        ({"engine": {"name": "llama.cpp", "tensor_split": [3, 1]}}, [("tensor_split", "3,1")]),
        ({"engine": {"name": "vllm", "enforce_eager": True}}, [("engine", "vllm"), ("enforce_eager", "true")]),
    ],
)
def test_addresses_are_short(request_parts: dict[str, Any], parameters: list[tuple[str, str]]) -> None:
    """What has its default is left out, and names and numbers are written as people write them."""
    assert query_of_request(validate_request({"model": "m", **request_parts})) == [("model", "m"), *parameters]
