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
        "acceptance_fraction": 0.84,
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


@pytest.mark.parametrize(
    ("model", "draft"), [(TARGET, {"model": DRAFT}), (WITH_DRAFT_LAYERS, {"spec_type": "draft-mtp"})]
)
def test_a_draft_changes_decode_by_its_gain(model: str, draft: dict[str, Any]) -> None:
    """The rate with the draft is the rate without, times the gain; the parts of a token's time add up to it."""
    without, beside = planned(model), planned(model, draft={**draft, "acceptance_fraction": 0.7})
    assert without.speed is not None
    assert beside.speed is not None
    found = beside.speed.speculation
    assert found is not None
    assert without.speed.speculation is None
    rate = beside.speed.decode_tokens_per_s.mid
    assert found.plain_decode_tokens_per_s == pytest.approx(without.speed.decode_tokens_per_s.mid)
    assert rate == pytest.approx(found.gain * found.plain_decode_tokens_per_s)
    assert rate == pytest.approx(found.step_tokens / (found.draft_s + found.verify_s))
    assert sum(step.s for step in beside.speed.breakdown) == pytest.approx(1 / rate)
    assert found.step_tokens == pytest.approx(1 + 0.7 + 0.7**2 + 0.7**3)
    assert found.accepted_fraction == pytest.approx((0.7 + 0.7**2 + 0.7**3) / 3)
    assert found.best_gain >= found.gain


def test_a_prompt_is_the_drafts_too() -> None:
    """The draft computes the prompt as well, so that it takes longer."""
    without, beside = planned(), planned(draft=DRAFT)
    assert without.speed is not None
    assert beside.speed is not None
    assert without.speed.prefill_tokens_per_s is not None
    assert beside.speed.prefill_tokens_per_s is not None
    assert beside.speed.prefill_tokens_per_s.mid < without.speed.prefill_tokens_per_s.mid


def test_an_acceptance_that_nobody_stated_is_said_to_be_assumed() -> None:
    """The warning names it, the basis follows, and the range reaches from prose to code."""
    assumed, stated = planned(draft=DRAFT), planned(draft={"model": DRAFT, "acceptance_fraction": 0.84})
    assert "draft-acceptance-assumed" in codes(assumed)
    assert "draft-acceptance-assumed" not in codes(stated)
    assert assumed.speed is not None
    assert stated.speed is not None
    assert (assumed.speed.basis, stated.speed.basis) == ("assumed", "fitted")
    wide, narrow = assumed.speed.decode_tokens_per_s, stated.speed.decode_tokens_per_s
    assert wide.mid == pytest.approx(narrow.mid)
    assert wide.low < narrow.low
    assert wide.high > narrow.high


@pytest.mark.parametrize(("acceptance", "code"), [(0.9, "draft-pays"), (0.05, "draft-loses")])
def test_advice_says_whether_a_draft_pays(acceptance: float, code: str) -> None:
    """With the acceptance below which it does not, and the number of tokens that would be best."""
    plan = planned(draft={"model": DRAFT, "n_max": 5, "acceptance_fraction": acceptance})
    (advice,) = [each for each in plan.advice if each.code.startswith("draft-")]
    assert advice.code == code
    even = advice.numbers["break_even_acceptance_fraction"]
    assert isinstance(even, float)
    assert (acceptance > even) is (code == "draft-pays")
    assert f"{even:.0%}" in advice.message
    at_even = planned(draft={"model": DRAFT, "n_max": 5, "acceptance_fraction": even})
    assert at_even.speed is not None
    assert at_even.speed.speculation is not None
    assert at_even.speed.speculation.gain == pytest.approx(1, abs=1e-6)
    assert any("tokens on average" in step for step in plan.explanation)


def test_no_gain_is_claimed_where_arithmetic_is_not_known() -> None:
    """What verifying takes depends on it: without, the speed is that of the model alone, and a warning says so."""
    card = {"name": "lab card", "vram_bytes": 80 * 2**30, "bandwidth_bytes_per_s": 1e12, "backend": "cuda"}
    plan = ask(WITH_DRAFT_LAYERS, {"gpu": card}, context_tokens=8192, engine={"draft": "mtp"})
    assert plan.speed is not None
    assert plan.speed.speculation is None
    assert "draft-speed-not-modelled" in codes(plan)


@pytest.mark.parametrize("acceptance", [-0.1, 1.1])
def test_an_acceptance_is_a_probability(acceptance: float) -> None:
    """Anything else is refused."""
    with pytest.raises(InvalidRequest):
        planned(draft={"model": DRAFT, "acceptance_fraction": acceptance})


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
