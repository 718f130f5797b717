"""What the planner chooses where a request leaves it open."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.contract.plan import DevicePlan, HostPlan, Plan
from tests.planner import ask, llamacpp

LLAMA_70B = "llama-3.3-70b:Q4_K_M"
QWEN_32B = "qwen3-32b:Q4_K_M"
QWEN_30B_MOE = "qwen3-30b-a3b:Q4_K_M"
CARDS = ("rtx-3060-12gb", "rtx-3090", "rtx-4070", "rtx-5090", "rtx-4060-ti-16gb")


def engine_of(plan: Plan, **changes: Any) -> dict[str, Any]:
    """The engine fields of a plan that a request can state, with changes."""
    stated = (
        "tool", "split_mode", "main_gpu", "tensor_split", "n_gpu_layers", "n_batch", "n_ubatch", "flash_attn",
        "cache_type_k", "cache_type_v", "kv_unified", "swa_full", "n_cpu_moe", "override_tensor", "kv_offload",
    )  # fmt: skip
    engine = plan.engine.model_dump(include=set(stated))
    return engine | changes


def test_an_open_context_is_the_largest_that_fits() -> None:
    """Without a context the plan takes all that the cards have room for, in steps of 256."""
    plan = ask(LLAMA_70B, "2x rtx-3090")
    chosen = plan.workload.context_tokens
    assert chosen is not None
    assert plan.fits
    assert chosen == plan.max_context_tokens
    assert chosen % 256 == 0
    assert not ask(LLAMA_70B, "2x rtx-3090", context_tokens=chosen + 256, engine=engine_of(plan)).fits


def test_an_open_context_ends_at_the_training() -> None:
    """On a large card the context is the one the model was trained for."""
    plan = ask(QWEN_32B, "h100-sxm5-80gb")
    assert plan.workload.context_tokens == plan.model.trained_context_tokens


def test_the_largest_context_is_the_largest() -> None:
    """At max_context_tokens the same choices fit, 256 tokens further they do not."""
    fixed = {"tensor_split": [32, 24], "n_gpu_layers": "all"}
    plan = ask(LLAMA_70B, "rtx-5090", "rtx-3090", context_tokens=4096, engine=fixed)
    at, beyond = (
        ask(LLAMA_70B, "rtx-5090", "rtx-3090", context_tokens=tokens, engine=fixed)
        for tokens in (plan.max_context_tokens, plan.max_context_tokens + 256)
    )
    assert (at.fits, beyond.fits) == (True, False)
    assert beyond.shortfall_bytes > 0


def test_the_largest_context_goes_beyond_the_training_where_that_was_asked_for() -> None:
    """Asking beyond the training moves the end of the search there."""
    trained = ask(QWEN_32B, "h100-sxm5-80gb", context_tokens=4096)
    beyond = ask(QWEN_32B, "h100-sxm5-80gb", context_tokens=50_000)
    assert trained.max_context_tokens == 40_960
    assert beyond.max_context_tokens == 50_176


def test_a_dense_model_too_large_for_the_card_leaves_layers_on_the_host() -> None:
    """The most layers that fit are on the card: one more does not."""
    plan = ask(LLAMA_70B, "rtx-3090", context_tokens=8192)
    assert plan.verdict == "fits_with_host_offload"
    assert not plan.fits
    assert llamacpp(plan).n_cpu_moe == 0
    more = ask(LLAMA_70B, "rtx-3090", context_tokens=8192, engine={"n_gpu_layers": llamacpp(plan).n_gpu_layers + 1})
    assert more.verdict == "does_not_fit"


def test_a_mixture_of_experts_leaves_the_fewest_experts_on_the_host() -> None:
    """All layers are on the card without the experts of some blocks; one block less on the host does not fit."""
    plan = ask(QWEN_30B_MOE, "rtx-4060-ti-16gb", context_tokens=16384)
    assert plan.verdict == "fits_with_host_offload"
    assert llamacpp(plan).n_gpu_layers == 49
    assert llamacpp(plan).n_cpu_moe > 0
    fewer = engine_of(plan, n_cpu_moe=llamacpp(plan).n_cpu_moe - 1)
    assert ask(QWEN_30B_MOE, "rtx-4060-ti-16gb", context_tokens=16384, engine=fewer).verdict == "does_not_fit"


def test_an_open_context_without_room_for_everything_stays_useful() -> None:
    """Where layers have to be left out anyway, at least 4,096 tokens of context are kept."""
    plan = ask(LLAMA_70B, "rtx-3090")
    assert plan.verdict == "fits_with_host_offload"
    assert plan.workload.context_tokens is not None
    assert plan.workload.context_tokens >= 4096


def test_what_the_user_fixed_is_not_changed() -> None:
    """With all layers asked for, what does not fit is said not to fit."""
    plan = ask(LLAMA_70B, "rtx-3090", context_tokens=8192, engine={"n_gpu_layers": "all"})
    assert plan.verdict == "does_not_fit"
    assert llamacpp(plan).n_gpu_layers == 81
    assert "out-of-memory" in [warning.code for warning in plan.warnings]


def test_layers_fixed_below_all_are_an_offload_that_was_asked_for() -> None:
    """Some layers on the host, as asked: that fits with host offload."""
    plan = ask(LLAMA_70B, "rtx-3090", context_tokens=8192, engine={"n_gpu_layers": 20})
    assert plan.verdict == "fits_with_host_offload"
    assert llamacpp(plan).n_gpu_layers == 20


@pytest.mark.parametrize(
    "engine",
    [{"kv_offload": False}, {"override_tensor": [r"blk\.3\.ffn_down=CPU"]}, {"n_gpu_layers": 0}, {"n_gpu_layers": 32}],
    ids=str,
)
def test_whatever_lies_on_the_host_is_an_offload(engine: dict[str, Any]) -> None:
    """A cache, one tensor, all layers or the first one on the host: it fits, but not all of it on the card."""
    plan = ask("llama-3.1-8b:Q4_K_M", "rtx-3090", context_tokens=4096, engine=engine)
    assert plan.verdict == "fits_with_host_offload"
    assert "host-offload" in [warning.code for warning in plan.warnings]


def test_llama_cpp_divides_by_free_memory_where_that_fits() -> None:
    """Two equal cards get the split that the engine makes by itself."""
    plan = ask(LLAMA_70B, "2x rtx-3090", context_tokens=16384)
    assert llamacpp(plan).tensor_split == [41, 40]
    assert "-ts" not in plan.command.argv


def test_a_split_is_found_where_the_default_overflows() -> None:
    """A model that the engine's own split does not fit is divided so that it does, and the command says how."""
    gpus = ({"gpu": "rtx-3090", "free_bytes": 17 * 10**9}, {"gpu": "rtx-3090", "free_bytes": 4 * 10**9})
    default = ask(QWEN_32B, *gpus, context_tokens=2048, engine={"tensor_split": [17, 4], "n_gpu_layers": "all"})
    assert not default.fits
    plan = ask(QWEN_32B, *gpus, context_tokens=2048)
    assert plan.fits
    assert "-ts" in plan.command.argv


@pytest.mark.parametrize("n_gpu_layers", ["all", 65, 60])
def test_who_fixes_the_layers_gets_the_engines_own_split(n_gpu_layers: int | str) -> None:
    """With n_gpu_layers stated the split follows free memory, even where another one or one card alone would fit."""
    gpus = ({"gpu": "rtx-3090", "free_bytes": 22 * 10**9}, {"gpu": "rtx-3090", "free_bytes": 2 * 10**9})
    shares = {"n_gpu_layers": n_gpu_layers, "tensor_split": [22, 2]}
    stated = ask(QWEN_32B, *gpus, context_tokens=2048, engine={"n_gpu_layers": n_gpu_layers})
    by_memory = ask(QWEN_32B, *gpus, context_tokens=2048, engine=shares)
    assert ask(QWEN_32B, *gpus, context_tokens=2048).fits
    assert stated.verdict == "does_not_fit"
    assert [device.layers for device in stated.devices] == [device.layers for device in by_memory.devices]
    assert "-ts" not in stated.command.argv
    assert any("by free memory" in step for step in stated.explanation)


def test_one_card_alone_is_taken_where_no_split_fits() -> None:
    """Beside a card with no room to speak of, the large one works alone."""
    plan = ask(
        "llama-3.1-8b:Q4_K_M", {"gpu": "rtx-3060-12gb", "free_bytes": 20_000_000}, "rtx-3090", context_tokens=8192
    )
    assert plan.fits
    assert plan.devices[0].weights_bytes == 0
    assert plan.devices[0].headroom_bytes >= 0


def test_what_was_chosen_gives_the_same_plan_when_stated() -> None:
    """The engine fields of a plan, sent back, put every byte in the same place."""
    for gpus in (("2x rtx-3090",), ("rtx-3090", "rtx-3060-12gb"), ("rtx-3060-12gb",)):
        plan = ask(QWEN_32B, *gpus, context_tokens=8192)
        again = ask(QWEN_32B, *gpus, context_tokens=8192, engine=engine_of(plan))
        assert [device.model_dump() for device in again.devices] == [device.model_dump() for device in plan.devices]
        assert again.host == plan.host


def test_a_rig_without_cards_is_planned_on_the_host() -> None:
    """Everything lies in main memory, and without its size that fits."""
    plan = ask("llama-3.1-8b:Q4_K_M", context_tokens=8192)
    assert plan.devices == []
    assert plan.verdict == "fits"
    assert plan.host.total_bytes > plan.model.tensor_data_bytes
    assert plan.speed is not None
    assert plan.speed.limited_by == "host_memory"


def test_main_memory_that_is_stated_is_checked() -> None:
    """A host with too little memory does not fit the model, and the shortfall is the difference."""
    plan = ask("llama-3.1-8b:Q4_K_M", context_tokens=8192, host={"ram_bytes": 4 * 10**9})
    assert plan.verdict == "does_not_fit"
    assert plan.shortfall_bytes == plan.host.total_bytes - 4 * 10**9
    assert plan.max_context_tokens == 0


@pytest.mark.parametrize("model", [QWEN_32B, QWEN_30B_MOE, "gemma-3-27b:Q4_K_M"])
def test_more_context_never_needs_fewer_bytes(model: str) -> None:
    """Doubling the context adds bytes on every card and on the host, or leaves them."""
    plans = [
        ask(model, "2x rtx-3090", context_tokens=2**power, engine={"n_gpu_layers": "all"}) for power in range(9, 18)
    ]
    for smaller, larger in pairwise(plans):
        for before, after in zip(smaller.devices, larger.devices, strict=True):
            assert before.total_bytes <= after.total_bytes
        assert smaller.host.total_bytes <= larger.host.total_bytes


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from(CARDS), min_size=1, max_size=3), st.sampled_from(CARDS), st.data())
def test_one_more_card_never_makes_it_worse(gpus: list[str], added: str, data: st.DataObject) -> None:
    """With everything open, what fits on some cards also fits with one more, wherever it is put."""
    before = ask(QWEN_32B, *gpus, context_tokens=8192)
    position = data.draw(st.integers(0, len(gpus)))
    after = ask(QWEN_32B, *gpus[:position], added, *gpus[position:], context_tokens=8192)
    ranks = ("does_not_fit", "fits_with_host_offload", "fits")
    assert ranks.index(after.verdict) >= ranks.index(before.verdict)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from(CARDS), min_size=1, max_size=4), st.integers(1, 40_960))
def test_layers_and_bytes_are_conserved(gpus: list[str], context_tokens: int) -> None:
    """Every layer is in one place, and no weight is lost between cards and host."""
    plan = ask(QWEN_32B, *gpus, context_tokens=context_tokens)
    held = sum(end - first for device in plan.devices for first, end in device.layers)
    assert held + (65 - llamacpp(plan).n_gpu_layers) == 64 if llamacpp(plan).n_gpu_layers else held == 0
    places: list[DevicePlan | HostPlan] = [*plan.devices, plan.host]
    assert sum(place.weights_bytes for place in places) >= plan.model.tensor_data_bytes
    for device in plan.devices:
        parts = (device.weights_bytes, device.kv_bytes, device.compute_bytes, device.overhead_bytes)
        assert sum(parts) == device.total_bytes
        assert device.usable_bytes - device.total_bytes == device.headroom_bytes
