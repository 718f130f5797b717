"""Speeds of vLLM follow the physics, and public runs within the range that plans state."""

import pytest

from benchmarks.vllm_speed_report import ROOT, report
from service.contract.plan import Plan
from tests.planner import ask
from tests.vllm_speed import compared, median_error, share_within, speed_cases


def plan(model: str, *gpus: object, parallel: int = 1, **engine: object) -> Plan:
    """A plan of vLLM at a context of 8,192 tokens a stream."""
    return ask(
        model, *gpus, context_tokens=8192 * parallel, workload={"parallel": parallel},
        engine={"name": "vllm", **engine},
    )  # fmt: skip


def decode(answer: Plan) -> float:
    """Tokens per second of one stream."""
    assert answer.speed is not None
    return answer.speed.decode_tokens_per_s.mid


def aggregate(answer: Plan) -> float:
    """Tokens per second of all streams."""
    assert answer.speed is not None
    return answer.speed.aggregate_decode_tokens_per_s.mid


@pytest.mark.parametrize(
    ("metric", "cases", "median", "within_30"),
    [("decode_tokens_per_s", 47, 0.2, 0.75), ("prefill_tokens_per_s", 18, 0.2, 0.7), ("ttft_s", 32, 0.25, 0.65)],
)
def test_the_error_is_as_stated(metric: str, cases: int, median: float, within_30: float) -> None:
    """One constant per number of bits and of ranks meets most public runs within 30 %."""
    found = compared(metric)
    assert len(found) >= cases
    assert median_error(found) <= median
    assert share_within(found, 0.3) >= within_30


def test_many_streams_without_prompts_are_met() -> None:
    """Batches of a mixture of experts, from two to 64 streams."""
    found = compared("aggregate_decode_tokens_per_s")
    assert len(found) >= 8
    assert share_within(found, 0.35) >= 0.9


def test_what_is_refused_is_explained() -> None:
    """A model that is in no catalogue, and contexts beyond what the checkpoint allows."""
    refused = [case for case in speed_cases() if case.plan is None]
    assert len(refused) <= 7
    assert all(
        "No model of the catalogue" in case.refused or "max_position_embeddings" in case.refused for case in refused
    )


def test_the_report_is_that_of_the_rules() -> None:
    """benchmarks/vllm_speed.md is what benchmarks/vllm_speed_report.py prints."""
    assert (ROOT / "benchmarks/vllm_speed.md").read_text("utf-8") == "\n".join(report()) + "\n"


def test_tensor_parallelism_decodes_faster_and_pipelines_do_not() -> None:
    """Two cards read half each at the same time; stages work in turn."""
    one, two, stages = (
        plan("qwen3-14b:FP8", "rtx-4090"),
        plan("qwen3-14b:FP8", "2x rtx-4090", tensor_parallel_size=2),
        plan("qwen3-14b:FP8", "2x rtx-4090", pipeline_parallel_size=2),
    )
    assert decode(two) > 1.3 * decode(one)
    assert decode(stages) < decode(one)


def test_streams_together_are_faster_and_each_is_slower() -> None:
    """A step reads the weights once for all of them."""
    rates = [plan("qwen3-8b:FP8", "rtx-4090", parallel=streams) for streams in (1, 4, 8)]
    assert [decode(each) for each in rates] == sorted((decode(each) for each in rates), reverse=True)
    assert [aggregate(each) for each in rates] == sorted(aggregate(each) for each in rates)
    assert aggregate(rates[2]) > 3 * aggregate(rates[0])


def test_fewer_bits_decode_faster() -> None:
    """Weights of eight and four bits are read in less time."""
    rates = [decode(plan(f"qwen3-8b:{scheme}", "rtx-4090")) for scheme in ("BF16", "FP8", "AWQ")]
    assert rates == sorted(rates)


def test_eager_execution_is_slower() -> None:
    """Without CUDA graphs the fixed time of every layer grows."""
    assert decode(plan("qwen3-8b:AWQ", "rtx-4090", enforce_eager=True)) < decode(plan("qwen3-8b:AWQ", "rtx-4090"))


def test_links_show_in_prompts() -> None:
    """All-reduces of whole prompts take longer over a narrower link, and over the host than over NVLink."""
    wide = plan("qwen3-32b:FP8", *[{"gpu": "rtx-4090", "pcie_lanes": 16}] * 2, tensor_parallel_size=2)
    narrow = plan("qwen3-32b:FP8", *[{"gpu": "rtx-4090", "pcie_lanes": 4}] * 2, tensor_parallel_size=2)
    assert wide.speed is not None
    assert narrow.speed is not None
    assert wide.speed.ttft_s is not None
    assert narrow.speed.ttft_s is not None
    assert narrow.speed.ttft_s.mid > 1.2 * wide.speed.ttft_s.mid


def test_assumptions_take_the_place_of_constants() -> None:
    """A stated share of the bandwidth and no fixed time give bytes over bandwidth."""
    answer = ask(
        "llama-3.1-8b:BF16", "rtx-3090", context_tokens=4096, engine={"name": "vllm"},
        assumptions={"bandwidth_fraction": 1.0, "fixed_s_per_device": 0.0, "ignore_kv_reads": True},
    )  # fmt: skip
    (device,) = answer.devices
    assert device.decode_s is not None
    assert device.decode_s == pytest.approx((8_030_261_248 - 128_256 * 4096) * 2 / 936e9, rel=0.002)
