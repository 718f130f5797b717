"""Runners-up of a plan."""

from typing import Any

import pytest

from service.contract.plan import Alternative, Plan
from tests.planner import ask, llamacpp

LLAMA_70B = "llama-3.3-70b:Q4_K_M"
QWEN_32B = "qwen3-32b:Q4_K_M"
ASSUMED = {"bandwidth_fraction": 0.79, "fixed_s_per_device": 0.00074, "ignore_kv_reads": True}
UNLIKE = ("rtx-5090", "rtx-3090")
STATED = {"split_mode", "main_gpu", "devices", "tensor_split", "n_gpu_layers", "cache_type_k", "cache_type_v"}


def other(plan: Plan, words: str) -> Alternative:
    """The runner-up whose label has these words."""
    return next(each for each in plan.alternatives if words in each.label)


def decode_ms(plan: Plan | Alternative) -> float:
    """Time of a token."""
    rate = plan.decode_tokens_per_s if isinstance(plan, Alternative) else plan.speed and plan.speed.decode_tokens_per_s
    assert rate
    return 1000 / rate.mid


def test_the_corner_beats_both_rules_of_thumb() -> None:
    """Filling the fast card first is faster than the worked examples' 42.7 ms by memory and 40.4 ms by bandwidth."""
    plan = ask(LLAMA_70B, *UNLIKE, context_tokens=4096, assumptions=ASSUMED)
    assert decode_ms(other(plan, "free memory")) == pytest.approx(42.7, abs=0.2)
    assert decode_ms(other(plan, "divided in proportion")) == pytest.approx(40.4, abs=0.2)
    assert decode_ms(plan) < 38
    assert plan.fits
    assert plan.devices[0].headroom_bytes < 513_245_184 < plan.devices[1].headroom_bytes
    steps = [step for step in plan.explanation if step.startswith("Ways to divide")]
    assert len(steps) == 1
    assert all(words in steps[0] for words in ("as planned", "free memory", "bandwidth", "tokens/s", "left"))


@pytest.mark.parametrize("shares", [[32, 24], [1792, 936]])
def test_what_stated_shares_cost_is_shown(shares: list[float]) -> None:
    """With shares stated the plan keeps them, and the best division is a runner-up."""
    engine = {"split_mode": "layer", "tensor_split": shares}
    plan = ask(LLAMA_70B, *UNLIKE, context_tokens=4096, assumptions=ASSUMED, engine=engine)
    assert llamacpp(plan).tensor_split == shares
    freed = other(plan, "split_mode and tensor_split left open")
    assert decode_ms(freed) < decode_ms(plan) / 1.05
    assert freed.verdict == "fits"


def test_a_runner_up_is_what_its_own_plan_says() -> None:
    """Asked for by its engine fields, it is the same plan: speed, context, bytes, command."""
    plan = ask(LLAMA_70B, *UNLIKE, context_tokens=4096)
    for each in plan.alternatives:
        stated = each.engine.model_dump(include=STATED)
        again = ask(LLAMA_70B, *UNLIKE, context_tokens=4096, engine=stated)
        assert again.speed is not None
        assert again.speed.decode_tokens_per_s == each.decode_tokens_per_s
        assert again.speed.prefill_tokens_per_s == each.prefill_tokens_per_s
        assert (again.verdict, again.max_context_tokens) == (each.verdict, each.max_context_tokens)
        assert max(device.total_bytes for device in again.devices) == each.busiest_device_bytes
    assert len(plan.alternatives) >= 3


def test_no_runner_up_is_the_plan_itself_and_they_are_few() -> None:
    """Every command is another one, fitting ones come first, and there are at most six."""
    mixed = ("rtx-3060-12gb", "rtx-3090", "rtx-4090", "rtx-5090", "rtx-4060-ti-16gb", "rtx-4070")
    plan = ask(QWEN_32B, *mixed, context_tokens=8192)
    commands = [tuple(each.argv) for each in plan.alternatives]
    assert 2 <= len(set(commands)) == len(commands) <= 6
    assert tuple(plan.command.argv) not in commands
    verdicts = ["fits", "fits_with_host_offload", "does_not_fit"]
    ranks = [verdicts.index(each.verdict) for each in plan.alternatives]
    assert ranks == sorted(ranks)


@pytest.mark.parametrize(
    ("gpus", "engine"),
    [
        (("rtx-4090",), {}),
        (("rtx-4090",), {"n_gpu_layers": "all"}),
        (UNLIKE, {"n_gpu_layers": "all", "tensor_split": [1, 1]}),
        ((), {}),
    ],
)
def test_nothing_is_compared_where_nothing_is_open(gpus: tuple[str, ...], engine: dict[str, Any]) -> None:
    """One card that holds everything, or a plan that is stated and fits, has no runner-up."""
    assert ask("llama-3.1-8b:Q4_K_M", *gpus, context_tokens=8192, engine=engine).alternatives == []


def test_what_a_stated_field_prevents_is_shown() -> None:
    """All layers asked for, where they do not fit: without that it fits in part."""
    plan = ask(LLAMA_70B, "rtx-3090", context_tokens=8192, engine={"n_gpu_layers": "all"})
    assert plan.verdict == "does_not_fit"
    freed = other(plan, "n_gpu_layers left open")
    assert freed.verdict == "fits_with_host_offload"


def test_a_smaller_cache_is_offered_and_never_taken() -> None:
    """Where the cache is too large for the cards, half of it is a runner-up that holds everything."""
    plan = ask(QWEN_32B, "rtx-3090", context_tokens=32768)
    assert plan.verdict == "fits_with_host_offload"
    assert (llamacpp(plan).cache_type_k, llamacpp(plan).cache_type_v) == ("f16", "f16")
    smaller = other(plan, "q8_0")
    assert smaller.verdict == "fits"
    assert "-ctk" in smaller.argv
    stated = ask(QWEN_32B, "rtx-3090", context_tokens=32768, engine={"cache_type_k": "f16"})
    assert not [each for each in stated.alternatives if "q8_0" in each.label]


def test_what_fit_leaves_is_compared_with_the_planner_s_own_choice() -> None:
    """A plan of llama.cpp's own --fit has the planner's choice as its runner-up, as it is when it is asked for."""
    fitted = ask("glm-4.5-air:Q4_K_M", "3x rtx-3090", context_tokens=4096, engine={"fit": True})
    own = ask("glm-4.5-air:Q4_K_M", "3x rtx-3090", context_tokens=4096)
    runner_up = other(fitted, "instead of --fit")
    assert runner_up.argv == own.command.argv
    assert decode_ms(runner_up) < decode_ms(fitted)
