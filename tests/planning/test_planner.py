"""From a request to its plan: names, identity, warnings, refusals."""

from pathlib import Path
from typing import Any

import pytest

from service.contract.validation import validate_request
from service.core.problems import (
    Contradiction,
    InvalidRequest,
    PlanProblem,
    UnknownGpu,
    UnknownModel,
    UnreadableModel,
    Unsupported,
)
from service.gguf.writer import write_header
from service.planning.catalogues import BuiltinCatalogues
from service.planning.planner import Planner
from tests.models import load_model
from tests.planner import ask, llamacpp

LLAMA_8B = "llama-3.1-8b:Q4_K_M"


def codes(plan_: Any) -> list[str]:
    return [warning.code for warning in plan_.warnings]


def test_the_same_question_has_the_same_id() -> None:
    """Spelling a rig or a default differently does not make another question."""
    plain = ask(LLAMA_8B, "2x rtx-3090", context_tokens=8192)
    spelled = ask(
        LLAMA_8B, "RTX 3090", {"gpu": "rtx-3090"}, context_tokens=8192, engine={"name": "llama.cpp", "n_batch": 2048}
    )
    assert plain.id == spelled.id
    assert plain.id.startswith("pln_")


@pytest.mark.parametrize(
    "changed",
    [
        {"context_tokens": 8448},
        {"context_tokens": 8192, "engine": {"n_ubatch": 256}},
        {"context_tokens": 8192, "host": {"ram_bytes": 2**36}},
        {"context_tokens": 8192, "assumptions": {"bandwidth_fraction": 0.7}},
        {"context_tokens": 8192, "workload": {"prompt_tokens": 512}},
    ],
)
def test_another_question_has_another_id(changed: dict[str, Any]) -> None:
    """Whatever changes the answer changes the id."""
    assert ask(LLAMA_8B, "rtx-3090", **changed).id != ask(LLAMA_8B, "rtx-3090", context_tokens=8192).id


def test_another_card_or_model_has_another_id() -> None:
    """Names that stand for other facts are other questions."""
    ids = {
        ask(model, gpu, context_tokens=2048).id
        for model in (LLAMA_8B, "llama-3.1-8b:Q8_0")
        for gpu in ("rtx-3090", "rtx-3090-ti")
    }
    assert len(ids) == 4


def test_a_bare_model_name_says_which_quant_is_meant() -> None:
    """Without a quant the usual one is planned, and the plan says so."""
    plan = ask("llama-3.1-8b", "rtx-3090", context_tokens=2048)
    assert plan.model.quant == "Q4_K_M"
    assert "model-reference" in codes(plan)
    assert "model-reference" not in codes(ask(LLAMA_8B, "rtx-3090", context_tokens=2048))


def test_context_beyond_training_is_allowed_and_warned_of() -> None:
    """More context than the model was trained for is planned, with both numbers in the warning."""
    plan = ask("qwen3-32b:Q4_K_M", "h100-sxm5-80gb", context_tokens=65536)
    (warning,) = [warning for warning in plan.warnings if warning.code == "context-beyond-training"]
    assert plan.fits
    assert warning.numbers == {"context_tokens": 65536, "trained_context_tokens": 40960}


def test_context_of_each_stream_counts_against_the_training() -> None:
    """Four streams may share four times the trained context."""
    plan = ask("qwen3-32b:Q4_K_M", "4x h100-sxm5-80gb", context_tokens=131072, workload={"parallel": 4})
    assert "context-beyond-training" not in codes(plan)


def test_offload_is_warned_of_with_its_bytes() -> None:
    """What lies on the host is named, and that its memory was not checked."""
    plan = ask("llama-3.3-70b:Q4_K_M", "rtx-3090", context_tokens=8192)
    (warning,) = [warning for warning in plan.warnings if warning.code == "host-offload"]
    assert warning.numbers["host_weights_bytes"] == plan.host.weights_bytes
    assert warning.numbers["host_layers"] == 81 - llamacpp(plan).n_gpu_layers
    assert "host-memory-unknown" in codes(plan)


def test_unverified_values_are_named() -> None:
    """A card whose figures were not re-read at their source is planned with a note about them."""
    plan = ask(LLAMA_8B, "rtx-3090", "arc-a770-16gb", context_tokens=2048)
    (warning,) = [warning for warning in plan.warnings if warning.code == "unverified-data"]
    assert warning.numbers == {"gpu": "arc-a770-16gb", "fields": ["memory_bandwidth_bytes_per_s"]}


def test_assumptions_are_echoed_and_used() -> None:
    """A plan says under which assumptions it was made, and its decode times follow from them."""
    stated = {"bandwidth_fraction": 0.5, "fixed_s_per_device": 0.001, "ignore_kv_reads": True}
    plan = ask(LLAMA_8B, "rtx-3090", context_tokens=2048, assumptions=stated)
    assert plan.assumptions is not None
    assert plan.assumptions.model_dump() == stated
    expected_s = plan.devices[0].read_bytes_per_token / (936.2e9 * 0.5) + 0.001
    assert plan.devices[0].decode_s == pytest.approx(expected_s)


def test_a_card_without_bandwidth_has_bytes_but_no_speed() -> None:
    """A card described without its bandwidth is planned, and the plan says why it has no speed."""
    plan = ask(LLAMA_8B, {"gpu": {"name": "lab card", "vram_bytes": 2**34}}, context_tokens=2048)
    assert plan.fits
    assert plan.speed is None
    assert plan.devices[0].decode_s is None
    assert "no-bandwidth" in codes(plan)


def test_streams_share_the_reads_of_weights() -> None:
    """Eight streams together are faster than one, each of them slower."""
    one = ask(LLAMA_8B, "rtx-3090", context_tokens=16384).speed
    eight = ask(LLAMA_8B, "rtx-3090", context_tokens=16384, workload={"parallel": 8}).speed
    assert one is not None
    assert eight is not None
    assert eight.aggregate_decode_tokens_per_s.mid > 2 * one.aggregate_decode_tokens_per_s.mid
    assert eight.decode_tokens_per_s.mid < one.decode_tokens_per_s.mid
    assert eight.aggregate_decode_tokens_per_s.mid == pytest.approx(8 * eight.decode_tokens_per_s.mid)


def test_experts_that_are_not_used_are_not_read() -> None:
    """A token of a mixture of experts reads the routed share of them, far less than the whole model."""
    plan = ask("qwen3-30b-a3b:Q4_K_M", "rtx-3090", context_tokens=4096, assumptions={"ignore_kv_reads": True})
    share = plan.devices[0].read_bytes_per_token / plan.model.tensor_data_bytes
    assert share == pytest.approx(plan.model.active_parameters / plan.model.parameters, rel=0.15)


def test_a_deeper_token_reads_more_cache() -> None:
    """Decode at a greater depth takes longer, by the bytes of the cache."""
    near, far = (
        ask(LLAMA_8B, "rtx-3090", context_tokens=65536, workload={"cached_tokens": cached}) for cached in (0, 50_000)
    )
    added = far.devices[0].read_bytes_per_token - near.devices[0].read_bytes_per_token
    assert added == 50_000 * 131_072
    assert near.speed is not None
    assert far.speed is not None
    assert far.speed.decode_tokens_per_s.mid < near.speed.decode_tokens_per_s.mid


@pytest.mark.parametrize(
    ("parts", "kind"),
    [
        ({"engine": {"name": "vllm"}}, Unsupported),
        ({"engine": {"fit": True, "split_mode": "tensor"}}, Unsupported),
        ({"engine": {"split_mode": "row"}}, Unsupported),
        ({"engine": {"tensor_split": [1, 1, 1]}}, Contradiction),
        ({"engine": {"cache_type_v": "q8_0", "flash_attn": False}}, Contradiction),
        ({"engine": {"override_tensor": ["no equals sign"]}}, InvalidRequest),
        ({"engine": {"override_tensor": ["blk=NOWHERE"]}}, InvalidRequest),
        ({"engine": {"override_tensor": ["(((=CPU"]}}, InvalidRequest),
        ({"engine": {"version": "latest"}}, InvalidRequest),
        ({"engine": {"date": "1999-01"}}, InvalidRequest),
        ({"engine": {"split_mode": "none", "main_gpu": 5}}, Contradiction),
    ],
    ids=str,
)
def test_what_the_engine_or_the_planner_refuses(parts: dict[str, Any], kind: type[PlanProblem]) -> None:
    """Each is a problem of its kind that says what to do."""
    with pytest.raises(kind) as refused:
        ask(LLAMA_8B, "2x rtx-3090", context_tokens=2048, **parts)
    assert refused.value.detail


@pytest.mark.parametrize("gpus", [["17x rtx-3090"], ["rtx-3090"] * 17, [{"gpu": "rtx-3090", "count": 1000}]])
def test_too_many_devices_are_refused(gpus: list[object]) -> None:
    """Seventeen devices are more than the engine takes, however they are written."""
    with pytest.raises(Unsupported, match="16 devices"):
        ask(LLAMA_8B, *gpus, context_tokens=2048)


def test_no_devices_at_all_are_refused_in_number() -> None:
    """A count of none is no rig."""
    with pytest.raises(InvalidRequest):
        ask(LLAMA_8B, "0x rtx-3090", context_tokens=2048)


def test_unknown_names_come_with_close_ones() -> None:
    """A misspelt card or model is refused with what it may have meant."""
    with pytest.raises(UnknownGpu) as card:
        ask(LLAMA_8B, "rtx-3099", context_tokens=2048)
    with pytest.raises(UnknownModel) as model:
        ask("lama-3.1-8b:Q4_K_M", "rtx-3090", context_tokens=2048)
    assert card.value.suggestions
    assert "llama-3.1-8b" in model.value.suggestions


def test_a_model_file_is_planned_like_the_catalogue_s(tmp_path: Path) -> None:
    """The header of a file gives the same bytes on every card as the catalogue's model."""
    path = tmp_path / "model.gguf"
    path.write_bytes(write_header(load_model("llama-3.2-1b:Q4_K_M")))
    from_file = ask({"path": str(path)}, "rtx-3090", context_tokens=2048)
    from_catalogue = ask("llama-3.2-1b:Q4_K_M", "rtx-3090", context_tokens=2048)
    assert from_file.devices == from_catalogue.devices


def test_a_file_that_is_missing_or_no_model_is_refused(tmp_path: Path) -> None:
    """A path without a file is an invalid request, a file without a header an unreadable model."""
    with pytest.raises(InvalidRequest, match="cannot be read"):
        ask({"path": str(tmp_path / "absent.gguf")}, "rtx-3090")
    (tmp_path / "text.gguf").write_text("not a model")
    with pytest.raises(UnreadableModel):
        ask({"path": str(tmp_path / "text.gguf")}, "rtx-3090")


def test_a_service_reads_no_files_and_fetches_no_addresses() -> None:
    """A path is for the command line, an address for a later release: both are refused in words."""
    planner = Planner(BuiltinCatalogues())
    with pytest.raises(InvalidRequest, match="command line"):
        planner.plan(validate_request({"model": {"path": "/etc/passwd"}}))
    with pytest.raises(Unsupported, match="address"):
        planner.plan(validate_request({"model": {"url": "https://models.example/model.gguf"}}))


def test_advice_to_use_one_card_states_what_that_plan_does() -> None:
    """The rate of the advice is that of the plan it advises."""
    gpus = ("rtx-3090", "rtx-5090")
    shared = ask(LLAMA_8B, *gpus, context_tokens=8192, engine={"tensor_split": [1, 1]})
    advice = next(each for each in shared.advice if each.code == "single-fast-gpu")
    alone = ask(LLAMA_8B, *gpus, context_tokens=8192, engine={"split_mode": "none", "main_gpu": 1})
    assert alone.speed is not None
    assert advice.numbers["gpu_index"] == 1
    assert advice.numbers["decode_tokens_per_s"] == pytest.approx(alone.speed.decode_tokens_per_s.mid, rel=1e-4)
