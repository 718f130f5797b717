"""Advice: each with its numbers, and only where it applies."""

from typing import Any

import pytest

from service.contract.plan import Advice, Plan
from tests.planner import ask

LLAMA_8B = "llama-3.1-8b:Q4_K_M"
LLAMA_70B = "llama-3.3-70b:Q4_K_M"
QWEN_32B = "qwen3-32b:Q4_K_M"
GPT_OSS = "gpt-oss-120b:MXFP4"


def advice(plan: Plan, code: str) -> Advice | None:
    """The advice of this code."""
    return next((each for each in plan.advice if each.code == code), None)


def test_a_second_card_that_is_no_faster_buys_context() -> None:
    """Qwen3 32B fits on one 3090: two decode no faster, and reach further."""
    plan = ask(QWEN_32B, "2x rtx-3090", context_tokens=4096)
    found = advice(plan, "second-card-no-faster")
    assert found is not None
    assert found.numbers["shared_decode_tokens_per_s"] <= found.numbers["decode_tokens_per_s"]  # type: ignore[operator]
    alone = ask(QWEN_32B, "rtx-3090", context_tokens=4096)
    assert found.numbers["max_context_tokens"] == alone.max_context_tokens
    assert found.numbers["shared_max_context_tokens"] == 40_960
    assert advice(plan, "second-card-needed") is None


def test_a_second_card_that_is_needed_is_said_to_be() -> None:
    """Llama 70B fits on no 3090 alone; both together load it."""
    found = advice(ask(LLAMA_70B, "2x rtx-3090", context_tokens=8192), "second-card-needed")
    assert found is not None
    assert found.numbers["needed_bytes"] > found.numbers["largest_usable_bytes"]  # type: ignore[operator]
    assert found.numbers["cards"] == 2


def test_cards_that_take_turns_are_compared_with_one() -> None:
    """By bandwidth, Qwen3 32B on a 5090 and a 3090 reads at the mean of 1364 GB/s of the worked examples."""
    engine = {"split_mode": "layer", "tensor_split": [1792, 936]}
    plan = ask(QWEN_32B, "rtx-5090", "rtx-3090", context_tokens=4096, engine=engine)
    found = advice(plan, "one-faster-card")
    assert found is not None
    assert found.numbers["mean_bandwidth_bytes_per_s"] == pytest.approx(1364e9, rel=0.02)
    assert advice(ask(QWEN_32B, "rtx-5090", context_tokens=4096), "one-faster-card") is None


def test_split_mode_tensor_is_weighed_with_both_rates() -> None:
    """Its gain in decode and in prefill is that of its plan; an architecture without it hears nothing of it."""
    plan = ask(LLAMA_70B, "2x rtx-3090", context_tokens=8192)
    joint = ask(LLAMA_70B, "2x rtx-3090", context_tokens=8192, engine={"split_mode": "tensor"})
    found = advice(plan, "tensor-split") or advice(plan, "no-tensor-split")
    assert found is not None
    assert plan.speed is not None
    assert joint.speed is not None
    gain = joint.speed.decode_tokens_per_s.mid / plan.speed.decode_tokens_per_s.mid
    assert found.numbers["decode_gain"] == pytest.approx(gain)
    assert found.numbers["reductions"] == 160
    assert (found.code == "tensor-split") == (gain >= 1.03)
    denied = ask("deepseek-v2-lite:Q4_K_M", "2x rtx-3090", context_tokens=8192)
    assert not [each for each in denied.advice if "tensor" in each.code]


def test_row_split_from_old_posts_is_dated() -> None:
    """A build that still has it is planned, with the day it went."""
    plan = ask(LLAMA_70B, "2x rtx-3090", context_tokens=8192, engine={"split_mode": "row", "date": "2026-05"})
    found = advice(plan, "row-split-removed")
    assert found is not None
    assert found.numbers == {"removed": "2026-07-06", "pull_request": 24216}


def test_a_smaller_cache_reaches_the_context() -> None:
    """32,768 tokens do not fit beside the weights on one card in f16, in q8_0 they do."""
    plan = ask(QWEN_32B, "rtx-3090", context_tokens=32768)
    found = advice(plan, "quantise-kv")
    assert found is not None
    assert found.numbers["kv_bytes_before"] == 8 * 2**30
    assert found.numbers["kv_bytes"] == 8 * 2**30 * 34 // 64
    assert advice(ask(QWEN_32B, "rtx-3090", context_tokens=8192), "quantise-kv") is None


def test_what_spills_is_slower_by_a_factor() -> None:
    """The factor is between this plan and the same cards with room for everything."""
    plan = ask(LLAMA_70B, "rtx-3090", context_tokens=8192)
    found = advice(plan, "spill-cliff")
    assert found is not None
    assert plan.speed is not None
    roomy = ask(LLAMA_70B, "2x rtx-3090", context_tokens=8192)
    assert roomy.speed is not None
    rate, whole = plan.speed.decode_tokens_per_s.mid, found.numbers["whole_decode_tokens_per_s"]
    assert whole == pytest.approx(roomy.speed.decode_tokens_per_s.mid, rel=0.05)
    assert found.numbers["slowdown"] == pytest.approx(float(str(whole)) / rate)
    assert rate * 2 < float(str(whole))
    assert advice(roomy, "spill-cliff") is None


def test_what_lies_beyond_the_cards_is_slower_by_a_factor() -> None:
    """The factor is that of the plan's own spill; what fits by itself hears nothing of it."""
    plan = ask(QWEN_32B, "rtx-3090", context_tokens=32_768, engine={"n_gpu_layers": "all"})
    found = advice(plan, "spill-cliff")
    assert found is not None
    assert plan.speed is not None
    assert plan.speed.spill is not None
    assert found.numbers["slowdown"] == pytest.approx(plan.speed.spill.slowdown)
    assert found.numbers["spilled_bytes"] == plan.shortfall_bytes
    assert f"{plan.speed.spill.slowdown:.1f} times as slow" in found.message
    assert advice(ask(QWEN_32B, "rtx-3090", context_tokens=4096), "spill-cliff") is None


def test_an_offload_is_compared_with_what_a_driver_would_move() -> None:
    """Layers on the host beside the same bytes read over the card's link."""
    found = advice(ask(LLAMA_70B, "rtx-3090", context_tokens=8192), "spill-cliff")
    assert found is not None
    numbers = {name: float(str(value)) for name, value in found.numbers.items()}
    assert numbers["spilled_slowdown"] == pytest.approx(
        numbers["whole_decode_tokens_per_s"] / numbers["spilled_decode_tokens_per_s"]
    )
    assert numbers["spilled_decode_tokens_per_s"] < numbers["decode_tokens_per_s"]


def test_copies_of_a_pipeline_at_a_long_context_are_weighed() -> None:
    """At 131,072 tokens the copies take gigabytes, which the advised entry gives back; at 4,096 nothing is said."""
    gpus = ("2x h100-sxm5-80gb",)
    fixed: dict[str, Any] = {"n_gpu_layers": "all"}
    long = ask(LLAMA_70B, *gpus, context_tokens=131_072, engine=fixed)
    found = advice(long, "pipeline-copies")
    assert found is not None
    plain = ask(LLAMA_70B, *gpus, context_tokens=131_072, engine=fixed | {"override_tensor": ["none=CPU"]})
    saved = sum(device.compute_bytes for device in long.devices) - sum(d.compute_bytes for d in plain.devices)
    assert found.numbers["copies_bytes"] == saved
    assert saved > 2**29
    assert advice(ask(LLAMA_70B, *gpus, context_tokens=4096, engine=fixed), "pipeline-copies") is None


def test_experts_that_the_last_card_keeps_are_counted() -> None:
    """Without shares --n-cpu-moe leaves the second card more experts than it has room for."""
    stated = ask(GPT_OSS, "2x rtx-3090", context_tokens=8192, engine={"n_cpu_moe": 10, "n_gpu_layers": "all"})
    found = advice(stated, "experts-on-last-card")
    assert found is not None
    assert stated.verdict == "does_not_fit"
    assert found.numbers["last_card_bytes"] == stated.devices[1].total_bytes
    assert "Give -ts" in found.message
    chosen = ask(GPT_OSS, "2x rtx-3090", context_tokens=8192)
    assert chosen.verdict == "fits_with_host_offload"
    explained = advice(chosen, "experts-on-last-card")
    assert explained is not None
    assert "spread them" in explained.message
    assert advice(ask(GPT_OSS, "rtx-3090", context_tokens=8192), "experts-on-last-card") is None


def test_defaults_of_the_server_that_do_not_fit_are_named() -> None:
    """Where the trained context does not fit, leaving -c and -np out is warned of; where it fits, it is not."""
    found = advice(ask(LLAMA_70B, "2x rtx-3090", context_tokens=8192), "server-defaults")
    assert found is not None
    assert found.numbers["slots"] == 4
    assert found.numbers["trained_context_tokens"] == 131_072
    assert advice(ask(QWEN_32B, "rtx-5090", context_tokens=8192), "server-defaults") is None
    bench = ask(LLAMA_70B, "2x rtx-3090", context_tokens=8192, engine={"tool": "llama-bench"})
    assert advice(bench, "server-defaults") is None


def test_one_card_has_no_advice_about_others() -> None:
    """A model that fits on the only card is left alone."""
    codes = {each.code for each in ask(LLAMA_8B, "rtx-3090", context_tokens=8192).advice}
    assert codes <= {"server-defaults"}
