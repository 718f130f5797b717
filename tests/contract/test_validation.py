"""JSON to PlanRequest, or a problem that names every field."""

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.contract.problem import problem_of
from service.contract.request import PlanRequest
from service.contract.validation import RefusedFields, parse_request, validate_request
from service.core.problems import PlanProblem, UnknownEngine

# the example of the contract, with a value in every field that may have one
WHOLE = {
    "model": "llama-3.3-70b:Q4_K_M",
    "rig": {
        "gpus": [
            "rtx-3090",
            "2x rtx-4090",
            {
                "gpu": "rtx-5090",
                "count": 1,
                "free_bytes": None,
                "power_limit_w": None,
                "pcie_gen": None,
                "pcie_lanes": None,
                "backend": None,
            },
            {
                "gpu": {
                    "name": "lab card",
                    "vram_bytes": 25769803776,
                    "bandwidth_bytes_per_s": 936000000000,
                    "fp16_tensor_flops": 71e12,
                    "tdp_w": 350,
                    "backend": "cuda",
                }
            },
        ],
        "nvlink": None,
        "p2p": None,
        "host": {"ram_bytes": None, "ram_bandwidth_bytes_per_s": None, "cpu": None},
        "psu": {"rated_w": None, "atx_version": None},
        "circuit": {"volts": None, "amps": None},
        "slots": None,
    },
    "workload": {
        "context_tokens": 16384,
        "parallel": 1,
        "prompt_tokens": 1024,
        "cached_tokens": 0,
        "output_tokens": 256,
    },
    "engine": {
        "name": "llama.cpp",
        "version": None,
        "date": None,
        "tool": "llama-server",
        "split_mode": None,
        "main_gpu": 0,
        "devices": None,
        "tensor_split": None,
        "n_gpu_layers": None,
        "n_batch": 2048,
        "n_ubatch": 512,
        "flash_attn": None,
        "cache_type_k": None,
        "cache_type_v": None,
        "kv_unified": None,
        "swa_full": False,
        "n_cpu_moe": None,
        "override_tensor": [],
        "kv_offload": True,
        "fit": None,
        "draft": None,
        "mmproj": None,
    },
    "assumptions": {"bandwidth_fraction": 0.79, "fixed_s_per_device": 0.00074, "ignore_kv_reads": True},
}
VLLM = {
    "name": "vllm",
    "version": "0.33.0",
    "date": "2026-10",
    "tensor_parallel_size": 2,
    "pipeline_parallel_size": 1,
    "pp_layer_partition": [40, 40],
    "gpu_memory_utilization": 0.92,
    "max_model_len": 32768,
    "data_parallel_size": 1,
    "max_num_batched_tokens": 8192,
    "max_num_seqs": 256,
    "kv_cache_dtype": "fp8",
    "enforce_eager": False,
    "cpu_offload_gib": 4,
    "enable_expert_parallel": False,
}


def test_the_whole_contract_is_read() -> None:
    """Every field of the contract has a place, with the value it was given."""
    request = parse_request(json.dumps(WHOLE).encode())
    dumped = request.model_dump(mode="json")
    assert dumped["workload"] == WHOLE["workload"]
    assert dumped["engine"] == WHOLE["engine"]
    assert dumped["assumptions"] == WHOLE["assumptions"]


def test_fields_that_are_left_out_have_the_contract_s_defaults() -> None:
    """A request that states only its model equals one that states every default."""
    defaults = {**WHOLE, "assumptions": None, "workload": {**WHOLE["workload"], "context_tokens": None}}  # type: ignore[dict-item]
    defaults["rig"] = {**WHOLE["rig"], "gpus": []}  # type: ignore[dict-item]
    assert validate_request({"model": WHOLE["model"]}) == validate_request(defaults)


def test_the_fields_of_vllm_are_read() -> None:
    """The union of engines knows vLLM's fields by its name."""
    request = validate_request({"model": "x", "engine": VLLM})
    assert request.engine.model_dump(mode="json") == {**VLLM, "cpu_offload_gib": 4.0}


def test_an_engine_without_a_name_is_llama_cpp() -> None:
    """Engine fields without a name are llama.cpp's."""
    assert validate_request({"model": "x", "engine": {"n_gpu_layers": 20}}).engine.name == "llama.cpp"


def test_an_unknown_engine_is_not_a_bad_field() -> None:
    """A name nobody has is its own kind of problem, with those that are close."""
    with pytest.raises(UnknownEngine) as refused:
        validate_request({"model": "x", "engine": {"name": "Llama-cpp"}})
    assert refused.value.suggestions == ("llama.cpp",)


def test_a_request_reads_back_what_it_says() -> None:
    """A request written as JSON is the same request."""
    request = validate_request(WHOLE)
    assert PlanRequest.model_validate_json(request.model_dump_json()) == request


def test_every_refused_field_is_listed_once() -> None:
    """Several mistakes are told together, each under its own pointer."""
    with pytest.raises(RefusedFields) as refused:
        validate_request({"model": 1, "workload": {"parallel": 0, "promt_tokens": 1}, "engine": {"n_gpu_layers": "x"}})
    pointers = [error.pointer for error in refused.value.errors]
    assert pointers == ["/model", "/workload/parallel", "/workload/promt_tokens", "/engine/n_gpu_layers"]
    assert "1 more" in refused.value.detail


def test_pointers_escape_what_json_pointers_must() -> None:
    """A key with a slash or tilde is written as RFC 6901 says."""
    with pytest.raises(RefusedFields) as refused:
        validate_request({"model": "x", "a/b~c": 1})
    assert refused.value.errors[0].pointer == "/a~1b~0c"


def test_a_thousand_mistakes_are_not_all_told() -> None:
    """The list of refused fields ends somewhere."""
    with pytest.raises(RefusedFields) as refused:
        validate_request({"model": "x", **{f"field{number}": 1 for number in range(1000)}})
    assert len(refused.value.errors) == 20


def is_request_or_problem(read: Callable[[], PlanRequest]) -> bool:
    """True for a request, and for a problem that can be written as JSON and says something."""
    try:
        return isinstance(read(), PlanRequest)
    except PlanProblem as refused:
        return bool(json.loads(problem_of(refused).model_dump_json())["detail"])


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=10,
)


@given(
    JSON_VALUES
    | st.fixed_dictionaries(
        {"model": JSON_VALUES},
        optional=dict.fromkeys(("rig", "workload", "engine", "assumptions", "x"), JSON_VALUES),
    )
)
def test_any_json_is_a_request_or_a_problem(value: object) -> None:
    """Whatever JSON is sent, the answer is a request or a problem that can be written as JSON."""
    assert is_request_or_problem(lambda: validate_request(value))


@given(st.binary(max_size=200))
def test_any_bytes_are_a_request_or_a_problem(raw: bytes) -> None:
    """Whatever bytes are sent, nothing else is raised."""
    assert is_request_or_problem(lambda: parse_request(raw))
