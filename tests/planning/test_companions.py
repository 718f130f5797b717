"""Drafts and projectors, from the request to the plan."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from service.contract.plan import Plan
from service.core.problems import Contradiction, InvalidRequest, PlanProblem, UnknownModel, Unsupported
from service.core.types import Model
from service.gguf.writer import write_header
from tests.models import load_model
from tests.planner import ask, llamacpp

TARGET = "llama-3.3-70b:Q4_K_M"
DRAFT = "llama-3.2-1b:Q8_0"
WITH_DRAFT_LAYERS = "qwen3.6-27b-mtp:Q4_K_M"
CARDS = "2x rtx-5090"
PROJECTOR_BYTES = 857_000_000


def planned(model: str = TARGET, context_tokens: int | None = 8192, **engine: Any) -> Plan:
    """A plan with these engine fields."""
    return ask(model, CARDS, context_tokens=context_tokens, engine=engine)


def codes(plan: Plan) -> set[str]:
    return {warning.code for warning in plan.warnings}


@pytest.mark.parametrize(
    ("model", "engine"),
    [
        (TARGET, {"draft": DRAFT}),
        (WITH_DRAFT_LAYERS, {"draft": "mtp"}),
        (TARGET, {"mmproj": {"weights_bytes": PROJECTOR_BYTES}}),
        (WITH_DRAFT_LAYERS, {"draft": "mtp", "mmproj": {"weights_bytes": PROJECTOR_BYTES, "offload": False}}),
    ],
)
def test_totals_include_what_runs_beside(model: str, engine: dict[str, Any]) -> None:
    """Each device's total is the sum of its parts, companions among them, and those are broken down."""
    plan = planned(model, **engine)
    assert len(plan.companions) == len(engine)
    for index, device in enumerate(plan.devices):
        parts = [companion.devices[index].total_bytes for companion in plan.companions]
        assert device.companion_bytes == sum(parts)
        held = device.weights_bytes + device.kv_bytes + device.compute_bytes + device.overhead_bytes
        assert device.total_bytes == held + device.companion_bytes
        assert device.headroom_bytes == device.usable_bytes - device.total_bytes
    host = plan.host
    assert host.companion_bytes == sum(companion.host.total_bytes for companion in plan.companions)
    assert host.total_bytes == host.weights_bytes + host.kv_bytes + host.compute_bytes + host.companion_bytes


def test_a_plan_without_them_has_none() -> None:
    """Nothing beside the model takes nothing."""
    plan = planned()
    assert plan.companions == []
    assert llamacpp(plan).draft is None
    assert llamacpp(plan).mmproj is None
    assert {device.companion_bytes for device in plan.devices} == {0}


def test_a_draft_leaves_less_context() -> None:
    """The largest context that fits counts the draft's cache too, and fits."""
    without, beside = (planned(context_tokens=None, **engine) for engine in ({}, {"draft": DRAFT}))
    assert without.verdict == beside.verdict == "fits"
    assert 0 < beside.max_context_tokens < without.max_context_tokens
    assert beside.workload.context_tokens == beside.max_context_tokens
    more = planned(context_tokens=beside.max_context_tokens + 256, draft=DRAFT, n_gpu_layers="all")
    assert more.shortfall_bytes > 0


def test_a_draft_moves_layers_to_the_host_where_there_is_no_room() -> None:
    """What fits alone may need the host beside a draft."""
    card = {"gpu": "rtx-5090", "free_bytes": 20_700_000_000}
    without, beside = (
        ask("qwen3-32b:Q4_K_M", card, context_tokens=4096, engine=engine)
        for engine in ({}, {"draft": "qwen3-0.6b:Q8_0"})
    )
    assert without.verdict == "fits"
    assert beside.verdict == "fits_with_host_offload"
    assert llamacpp(beside).n_gpu_layers < llamacpp(without).n_gpu_layers


def test_the_draft_is_resolved() -> None:
    """Every field of the draft is in the plan, and the command has them."""
    plan = planned(draft={"model": DRAFT, "n_max": 8, "cache_type_k": "q8_0", "n_gpu_layers": 5})
    draft = llamacpp(plan).draft
    assert draft is not None
    assert draft.model_dump() == {
        "model": DRAFT,
        "spec_type": "draft-simple",
        "n_max": 8,
        "cache_type_k": "q8_0",
        "cache_type_v": "f16",
        "n_gpu_layers": 5,
        "n_cpu_moe": 0,
        "override_tensor": [],
    }
    argv = plan.command.argv
    assert argv[argv.index("--spec-draft-n-max") + 1] == "8"
    assert "--spec-type" not in plan.command.verify


def test_draft_layers_are_loaded_when_asked_for() -> None:
    """With MTP the weights of the draft block come on top, and no warning says that they are left out."""
    without, beside = planned(WITH_DRAFT_LAYERS), planned(WITH_DRAFT_LAYERS, draft="mtp")
    assert "mtp-not-loaded" in codes(without)
    assert "mtp-not-loaded" not in codes(beside)
    loaded = sum(device.weights_bytes for device in beside.devices)
    assert loaded > sum(device.weights_bytes for device in without.devices)
    draft = llamacpp(beside).draft
    assert draft is not None
    assert (draft.model, draft.n_gpu_layers) == (None, None)


def test_speed_is_that_of_the_model_alone() -> None:
    """No gain is claimed: the rates are the same with and without, and a warning says so."""
    for model, draft in ((TARGET, DRAFT), (WITH_DRAFT_LAYERS, "mtp")):
        without, beside = planned(model), planned(model, draft=draft)
        assert without.speed is not None
        assert beside.speed is not None
        assert beside.speed.decode_tokens_per_s.mid == pytest.approx(without.speed.decode_tokens_per_s.mid, rel=0.02)
        assert "draft-speed-not-modelled" in codes(beside)
        assert "draft-speed-not-modelled" not in codes(without)


def test_a_short_draft_model_is_warned_of() -> None:
    """The draft's context is the model's, whatever it was trained for."""
    plan = ask("qwen3-30b-a3b:Q4_K_M", "h100-sxm5-80gb", context_tokens=65536, engine={"draft": "qwen3-0.6b:Q8_0"})
    (warning,) = [warning for warning in plan.warnings if warning.code == "draft-context-beyond-training"]
    assert warning.numbers == {"context_tokens": 65536, "trained_context_tokens": 40960}


def test_a_bare_draft_name_says_which_quant_is_meant() -> None:
    """As for the model itself, with the field it is about."""
    (note,) = [warning for warning in planned(draft="llama-3.2-1b").warnings if warning.code == "model-reference"]
    assert "llama-3.2-1b:Q4_K_M" in note.message
    assert note.numbers == {"field": "engine.draft"}


def projector() -> Model:
    """A model's tensors under the architecture of projectors."""
    source = load_model("qwen3-0.6b:Q8_0")
    return replace(source, architecture="clip", metadata={"general.architecture": "clip"})


def test_a_projector_is_read_from_its_file(tmp_path: Path) -> None:
    """Its tensors lie on the first card; on the host where it is told to."""
    path = tmp_path / "mmproj-model.gguf"
    path.write_bytes(write_header(projector()))
    size_bytes = sum(tensor.size_bytes for tensor in projector().tensors)
    on_card = planned(mmproj={"model": {"path": str(path)}})
    assert [device.companion_bytes >= size_bytes for device in on_card.devices] == [True, False]
    mmproj = llamacpp(on_card).mmproj
    assert mmproj is not None
    assert math.isclose(mmproj.weights_bytes, size_bytes, rel_tol=0.01)
    assert "mmproj-scratch-not-counted" in codes(on_card)
    on_host = planned(mmproj={"model": {"path": str(path)}, "offload": False})
    assert [device.companion_bytes for device in on_host.devices] == [0, 0]
    assert on_host.verdict == "fits_with_host_offload"
    with pytest.raises(Unsupported, match="projector"):
        ask({"path": str(path)}, CARDS)


@pytest.mark.parametrize(
    ("engine", "kind", "field"),
    [
        ({"draft": "no-such-model"}, UnknownModel, "engine.draft"),
        ({"draft": {"model": "no-such-model"}}, UnknownModel, "engine.draft.model"),
        ({"draft": {"model": {"path": "/nowhere/draft.gguf"}}}, InvalidRequest, "engine.draft.model"),
        ({"draft": "mtp"}, Unsupported, "engine.draft"),
        ({"draft": {}}, InvalidRequest, "engine.draft"),
        ({"draft": "qwen3-0.6b:Q8_0"}, Contradiction, "engine.draft"),
        ({"draft": {"model": DRAFT, "spec_type": "draft-mtp"}}, Contradiction, "engine.draft.spec_type"),
        ({"draft": {"spec_type": "draft-mtp", "n_gpu_layers": 3}}, Contradiction, "engine.draft.n_gpu_layers"),
        (
            {"draft": {"spec_type": "draft-mtp", "override_tensor": ["a=CPU"]}},
            Contradiction,
            "engine.draft.override_tensor",
        ),
        ({"draft": {"model": DRAFT, "override_tensor": ["nothing"]}}, InvalidRequest, "engine.draft.override_tensor"),
        ({"draft": {"model": DRAFT, "override_tensor": ["blk=NOWHERE"]}}, InvalidRequest, "engine.draft"),
        ({"draft": DRAFT, "tool": "llama-bench"}, Contradiction, "engine.draft"),
        ({"draft": DRAFT, "date": "2026-04"}, Unsupported, "engine.draft"),
        ({"mmproj": "no-such-model"}, UnknownModel, "engine.mmproj"),
        ({"mmproj": DRAFT}, Contradiction, "engine.mmproj"),
        ({"mmproj": {}}, InvalidRequest, "engine.mmproj"),
        ({"mmproj": {"model": DRAFT, "weights_bytes": 1}}, InvalidRequest, "engine.mmproj"),
        ({"mmproj": {"weights_bytes": 1}, "tool": "llama-bench"}, Contradiction, "engine.mmproj"),
    ],
    ids=str,
)
def test_what_cannot_run_beside_the_model(engine: dict[str, Any], kind: type[PlanProblem], field: str) -> None:
    """Each is a problem of its kind about its own field."""
    with pytest.raises(kind) as refused:
        planned(**engine)
    assert refused.value.fields[0] == field
    assert refused.value.detail


def test_each_companion_makes_another_question() -> None:
    """What runs beside the model, however it is spelled, is part of a plan's identity."""
    spellings = (DRAFT, {"model": DRAFT}, {"model": DRAFT, "spec_type": "draft-simple", "n_max": 3})
    assert len({planned(draft=draft).id for draft in spellings}) == 1
    engines: tuple[dict[str, Any], ...] = (
        {},
        {"draft": DRAFT},
        {"draft": "llama-3.2-1b:Q4_K_M"},
        {"draft": {"model": DRAFT, "n_max": 4}},
        {"mmproj": {"weights_bytes": PROJECTOR_BYTES}},
        {"mmproj": {"weights_bytes": PROJECTOR_BYTES, "offload": False}},
    )
    assert len({planned(**engine).id for engine in engines}) == len(engines)


def test_the_explanation_names_them() -> None:
    """Where their bytes lie is said, with the numbers."""
    plan = planned(draft=DRAFT, mmproj={"weights_bytes": PROJECTOR_BYTES})
    said = " ".join(plan.explanation)
    assert DRAFT in said
    assert f"{PROJECTOR_BYTES:,} bytes of weights lie on one card" in said
    assert f"{plan.companions[0].devices[0].total_bytes:,} bytes of card 0" in said
