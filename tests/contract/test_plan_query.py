"""A PlanRequest as flat query parameters."""

import pytest

from service.contract.plan_query import PlanQuery, request_of_query
from service.contract.request import PlanRequest
from service.contract.validation import validate_request
from service.core.problems import InvalidRequest


def of(**parameters: object) -> PlanRequest:
    return request_of_query(PlanQuery.model_validate({"model": "llama-3.3-70b", **parameters}))


def test_each_parameter_reaches_its_object() -> None:
    """Flat parameters become workload, host, engine and assumptions."""
    stated = of(
        gpus=["2x rtx-3090, rtx-5090", "rtx-4090"],
        context_tokens="16384",
        ram_bytes="68719476736",
        engine="llama.cpp",
        n_gpu_layers="all",
        tensor_split="3,1,1,1",
        devices="3,CUDA0",
        flash_attn="true",
        bandwidth_fraction="0.79",
        ignore_kv_reads="1",
    )
    assert stated == validate_request(
        {
            "model": "llama-3.3-70b",
            "rig": {"gpus": ["2x rtx-3090", "rtx-5090", "rtx-4090"], "host": {"ram_bytes": 68719476736}},
            "workload": {"context_tokens": 16384},
            "engine": {
                "name": "llama.cpp",
                "n_gpu_layers": "all",
                "tensor_split": [3, 1, 1, 1],
                "devices": [3, "CUDA0"],
                "flash_attn": True,
            },
            "assumptions": {"bandwidth_fraction": 0.79, "ignore_kv_reads": True},
        }
    )


def test_what_runs_beside_the_model_is_flat_too() -> None:
    """A draft by name or the model's own layers, and a projector by name or size, become their objects."""
    named = of(draft="qwen3-0.6b:Q8_0", draft_n_max="5", mmproj="some-mmproj")
    assert named == validate_request(
        {
            "model": "llama-3.3-70b",
            "engine": {"draft": {"model": "qwen3-0.6b:Q8_0", "n_max": 5}, "mmproj": {"model": "some-mmproj"}},
        }
    )
    own = of(draft="mtp", mmproj_weights_bytes="900000000")
    assert own == validate_request(
        {
            "model": "llama-3.3-70b",
            "engine": {"draft": {"spec_type": "draft-mtp"}, "mmproj": {"weights_bytes": 900_000_000}},
        }
    )


def test_a_model_alone_is_a_request() -> None:
    """Everything else has its default."""
    assert of() == validate_request({"model": "llama-3.3-70b"})


@pytest.mark.parametrize(
    "parameters",
    [
        {"context_tokens": "0"},
        {"tensor_split": "a"},
        {"n_gpu_layers": "most"},
        {"split_mode": "rows"},
        {"parallel": "999"},
    ],
)
def test_values_are_checked_as_those_of_json_are(parameters: dict[str, str]) -> None:
    """A flat value out of range is the same problem as a nested one."""
    with pytest.raises(InvalidRequest):
        of(**parameters)


def test_every_engine_field_that_is_flat_can_be_asked() -> None:
    """No field of the engine is forgotten but its name."""
    from service.contract.engine import LlamaCppEngine  # noqa: PLC0415

    missing = set(LlamaCppEngine.model_fields) - set(PlanQuery.model_fields)
    assert missing == {"name"}
