"""Questions about vLLM get plans of the same shape as any other, or problems that say what to do."""

from typing import Any

import pytest

from service.contract.plan import Plan, VllmEnginePlan
from service.contract.validation import validate_request
from service.core.problems import Contradiction, InvalidRequest, PlanProblem, UnknownModel, Unsupported
from service.core.units import GIB
from service.planning.row import row_of_plan
from tests.planner import ask, builtin_planner

MIXED = ("rtx-3090", "rtx-3060-12gb")


def vllm(model: str, *gpus: object, context_tokens: int | None = None, parallel: int = 1, **engine: Any) -> Plan:
    """A plan of vLLM; engine: its fields."""
    return ask(
        model, *gpus, context_tokens=context_tokens, workload={"parallel": parallel},
        engine={"name": "vllm", **engine},
    )  # fmt: skip


def engine_of(plan: Plan) -> VllmEnginePlan:
    """The engine part of a plan that is vLLM's."""
    assert isinstance(plan.engine, VllmEnginePlan)
    return plan.engine


def warning(plan: Plan, code: str) -> dict[str, Any]:
    """Numbers of the warning of a code, which the plan has once."""
    (found,) = [each.numbers for each in plan.warnings if each.code == code]
    return found


def test_one_card() -> None:
    """Weights, cache, activations and what lies outside add up to no more than vLLM's share of the card."""
    plan = vllm("llama-3.1-8b:BF16", "rtx-3090", context_tokens=16384)
    engine, (device,) = engine_of(plan), plan.devices
    assert plan.verdict == "fits"
    assert device.weights_bytes / GIB == pytest.approx(14.9888, abs=0.001)
    parts = device.weights_bytes + device.kv_bytes + device.compute_bytes + device.overhead_bytes
    assert device.total_bytes == parts
    assert 0 <= device.headroom_bytes < 16 * 131_072
    assert device.kv_bytes == engine.num_gpu_blocks * 16 * 131_072
    assert engine.kv_cache_tokens == engine.num_gpu_blocks * 16
    assert (engine.max_model_len, engine.gpu_memory_utilization) == (16384, 0.92)
    assert (engine.dtype, engine.quantization, engine.kv_cache_dtype) == ("bfloat16", None, "bfloat16")
    assert plan.max_context_tokens >= 16384


def test_two_cards_share_every_layer() -> None:
    """Tensor parallelism halves weights and cache, and holds a model that one card does not."""
    plan = vllm("llama-3.3-70b:AWQ", "2x rtx-3090", context_tokens=8192)
    assert engine_of(plan).tensor_parallel_size == 2
    assert [device.weights_bytes / GIB for device in plan.devices] == pytest.approx([18.55, 18.55], abs=0.01)
    assert plan.command.argv[:5] == ["vllm", "serve", "./llama-3.3-70b-AWQ", "--tensor-parallel-size", "2"]


def test_unequal_cards_get_a_partition_by_hand() -> None:
    """24 and 12 GB: equal stages do not hold the model, the partition found does, and the command sets it."""
    plan = vllm("qwen3-14b:BF16", *MIXED, context_tokens=8192)
    engine = engine_of(plan)
    assert plan.verdict == "fits"
    assert (engine.pipeline_parallel_size, engine.tensor_parallel_size) == (2, 1)
    first, second = engine.pp_layer_partition
    assert first > second
    assert first + second == 40
    assert plan.command.env["VLLM_PP_LAYER_PARTITION"] == f"{first},{second}"
    assert [device.layers for device in plan.devices] == [[[0, first]], [[first, 40]]]
    even = vllm("qwen3-14b:BF16", *MIXED, context_tokens=8192, pp_layer_partition=[20, 20])
    assert even.verdict == "does_not_fit"


def test_the_smaller_card_limits_tensor_parallelism() -> None:
    """Ranks hold the same, so 24 and 12 GB are no more than two of 12: what is lost is in the answer."""
    plan = vllm("qwen3-14b:BF16", *MIXED, context_tokens=8192, tensor_parallel_size=2)
    assert plan.verdict == "does_not_fit"
    assert plan.shortfall_bytes > 0
    assert warning(plan, "out-of-memory")["device"] == "rtx-3060-12gb (1)"
    small = vllm("qwen3-4b:BF16", *MIXED, tensor_parallel_size=2)
    numbers = warning(small, "smallest-card-limits")
    assert numbers["unused_bytes"][0] > 10 * GIB
    assert numbers["unused_bytes"][1] == 0
    assert small.devices[0].kv_bytes == small.devices[1].kv_bytes


def test_three_cards_that_heads_do_not_divide_by() -> None:
    """64 heads over three cards: refused as tensor parallelism, answered as a pipeline."""
    with pytest.raises(Unsupported, match=r"attention heads \(64\) must be divisible by tensor parallel size \(3\)"):
        vllm("qwen3-32b:FP8", "3x rtx-3090", tensor_parallel_size=3)
    plan = vllm("qwen3-32b:BF16", "3x rtx-5090", context_tokens=8192)
    assert engine_of(plan).pipeline_parallel_size == 3
    assert engine_of(plan).pp_layer_partition in ([21, 22, 21], [22, 22, 20])


def test_every_stream_counts() -> None:
    """Streams share the context; what they need together must be there at once."""
    plan = vllm("qwen3-8b:FP8", "rtx-3090", context_tokens=8 * 4096, parallel=8)
    assert engine_of(plan).max_model_len == 4096
    assert plan.verdict == "fits"
    many = vllm("qwen3-8b:FP8", "rtx-3090", context_tokens=64 * 4096, parallel=64)
    assert many.verdict == "does_not_fit"
    assert many.max_context_tokens < 64 * 4096


def test_open_context_is_the_largest_that_fits() -> None:
    """Up to what the model was trained for; asking for as much fits, asking for more does not."""
    plan = vllm("qwen3-32b:FP8", "2x rtx-3090")
    assert plan.max_context_tokens == plan.workload.context_tokens == 40_960 or plan.max_context_tokens < 40_960
    again = vllm("qwen3-32b:FP8", "2x rtx-3090", context_tokens=plan.max_context_tokens)
    assert again.verdict == "fits"


def test_experts_may_be_distributed_whole() -> None:
    """Expert parallelism is a flag, and FP8 blocks then do not limit the number of cards."""
    with pytest.raises(Unsupported, match="block_n = 128"):
        vllm("qwen3-30b-a3b:FP8", "4x rtx-3090", tensor_parallel_size=4)
    plan = vllm("qwen3-30b-a3b:FP8", "4x rtx-3090", tensor_parallel_size=4, enable_expert_parallel=True)
    assert "--enable-expert-parallel" in plan.command.argv


def test_weights_can_stay_in_the_host_s_memory() -> None:
    """cpu_offload_gib takes weights off every card and is an offload, not a fit."""
    without = vllm("qwen3-14b:BF16", "rtx-3090", context_tokens=4096)
    plan = vllm("qwen3-14b:BF16", "rtx-3090", context_tokens=4096, cpu_offload_gib=10)
    assert without.verdict == "does_not_fit"
    assert plan.verdict == "fits_with_host_offload"
    assert plan.host.weights_bytes == 10 * GIB
    assert plan.command.argv[-2:] == ["--cpu-offload-gb", "10"]


def test_a_smaller_batch_is_chosen_where_only_that_fits() -> None:
    """Where vLLM's own leave no room the plan lowers them, says so and puts them in the command; stated ones stay."""
    plan = vllm("qwen3-14b:AWQ", "rtx-3060-12gb", context_tokens=2048)
    assert plan.verdict == "fits"
    assert "--max-num-seqs" in plan.command.argv
    assert warning(plan, "batch-lowered")["max_num_seqs"] == engine_of(plan).max_num_seqs
    assert vllm("qwen3-14b:AWQ", "rtx-3060-12gb", context_tokens=2048, max_num_seqs=256).verdict == "does_not_fit"


@pytest.mark.parametrize(
    ("model", "engine", "workload", "problem", "words"),
    [
        ("llama-3.3-70b:Q4_K_M", {}, {}, Unsupported, "GGUF quant"),
        ("qwen3-32b:MXFP4", {}, {}, Unsupported, "not published"),
        ("no-such-model:FP8", {}, {}, UnknownModel, "no-such-model"),
        ("qwen3-32b:NO_SUCH", {}, {}, UnknownModel, "NO_SUCH"),
        ("deepseek-v4-flash:FP8", {}, {}, Unsupported, "not described"),
        ("qwen3-32b:FP8", {"tensor_parallel_size": 4}, {}, Contradiction, r"World size \(4\)"),
        ("qwen3-32b:FP8", {"pp_layer_partition": [40, 20]}, {}, Contradiction, r"sum\(partitions\)=60"),
        ("qwen3-32b:FP8", {"pp_layer_partition": [64], "pipeline_parallel_size": 2}, {}, Contradiction, "pp_size=2"),
        ("qwen3-32b:FP8", {"kv_cache_dtype": "q8_0"}, {}, InvalidRequest, "q8_0"),
        ("qwen3-32b:FP8", {"kv_cache_dtype": "nvfp4"}, {}, Unsupported, "compute capability"),
        ("qwen3-32b:FP8", {"version": "latest"}, {}, InvalidRequest, "release"),
        ("qwen3-32b:FP8", {"max_num_batched_tokens": 128, "max_num_seqs": 256}, {}, InvalidRequest, "max_num_seqs"),
        ("qwen3-32b:FP8", {}, {"context_tokens": 100_000}, Unsupported, r"max_position_embeddings=40960"),
        ("qwen3-32b:FP8", {"max_model_len": 1024}, {"context_tokens": 4096}, Contradiction, "max_model_len"),
    ],
)  # fmt: skip
def test_what_cannot_be_answered(
    model: str, engine: dict[str, Any], workload: dict[str, Any], problem: type[PlanProblem], words: str
) -> None:
    """The reason is vLLM's own where it has one, and a field is named."""
    request = validate_request(
        {"model": model, "rig": {"gpus": ["2x rtx-3090"]}, "workload": workload, "engine": {"name": "vllm", **engine}}
    )
    with pytest.raises(problem, match=words) as refused:
        builtin_planner().plan(request)
    assert refused.value.fields


def test_a_gguf_quant_is_answered_with_the_closest_format() -> None:
    """The first suggestion is about as large."""
    for quant, close in (("Q4_K_M", "AWQ"), ("Q8_0", "FP8")):
        with pytest.raises(Unsupported) as refused:
            vllm(f"llama-3.3-70b:{quant}", "2x rtx-3090")
        assert refused.value.suggestions[0] == f"llama-3.3-70b:{close}"


@pytest.mark.parametrize(
    ("reference", "scheme"),
    [("qwen3-32b", "BF16"), ("qwen3-32b:fp8", "FP8"), ("Qwen3-32B-AWQ", "AWQ"), ("qwen3-32b:w4a16", "INT4"),
     ("qwen3-32b:F16", "BF16"), ("gpt-oss-20b", "MXFP4"), ("deepseek-r1-671b", "FP8")],
)  # fmt: skip
def test_names_of_formats(reference: str, scheme: str) -> None:
    """Case and spelling do not matter; a bare name means what its maker publishes."""
    assert vllm(reference, "8x h200-sxm-141gb").model.quant == scheme


def test_only_a_host_is_no_rig_for_it() -> None:
    """Processors are not planned for with this engine."""
    with pytest.raises(Unsupported, match=r"rig\.gpus"):
        vllm("qwen3-32b:FP8")


def test_what_applies_is_in_the_command_and_nothing_else() -> None:
    """Peer access that is stated away, cards that are left out, and NCCL for more than two cards over PCI Express."""
    plain = vllm("qwen3-8b:FP8", "rtx-4090", context_tokens=8192)
    assert plain.command.env == {}
    assert "--disable-custom-all-reduce" not in plain.command.argv
    four = vllm("qwen3-32b:BF16", "4x rtx-4090", context_tokens=8192, tensor_parallel_size=4)
    assert "--disable-custom-all-reduce" in four.command.argv
    joined = vllm("llama-3.3-70b:BF16", "4x h100-sxm5-80gb", context_tokens=8192, tensor_parallel_size=4)
    assert "--disable-custom-all-reduce" not in joined.command.argv
    assert ask(
        "qwen3-32b:FP8", "2x rtx-4090", context_tokens=8192, rig={"p2p": False}, engine={"name": "vllm"}
    ).command.env == {"NCCL_P2P_DISABLE": "1"}
    assert vllm("qwen3-14b:AWQ", *MIXED).command.env == {"CUDA_VISIBLE_DEVICES": "0"}
    assert {note.flag.split("=")[0].split(" ")[0] for note in four.command.notes} == {
        word for word in four.command.argv if word.startswith("--")
    }


def test_a_row_has_the_same_columns_for_every_engine() -> None:
    """Spreadsheets put both engines side by side."""
    here = row_of_plan(vllm("qwen3-8b:FP8", "rtx-4090", context_tokens=8192))
    there = row_of_plan(ask("qwen3-8b:Q8_0", "rtx-4090", context_tokens=8192))
    assert list(here) == list(there)
    assert (here["engine"], there["engine"]) == ("vllm", "llama.cpp")
    assert (here["tensor_parallel_size"], there["tensor_parallel_size"]) == (1, None)


def test_the_same_question_has_the_same_identity() -> None:
    """Two entries or a count, an alias or the slug; another format is another question."""
    ids = {
        vllm("qwen3-32b:FP8", "2x rtx-3090", context_tokens=8192).id,
        vllm("qwen3-32b:fp8", "rtx-3090", "rtx-3090", context_tokens=8192).id,
    }
    assert len(ids) == 1
    assert vllm("qwen3-32b:AWQ", "2x rtx-3090", context_tokens=8192).id not in ids


@pytest.mark.parametrize("card", ["rtx-3090", "rtx-4090", "h100-sxm5-80gb", "b200"])
def test_more_context_never_needs_fewer_bytes_and_adding_cards_never_hurts(card: str) -> None:
    """What fits keeps fitting with less context, and with one card more."""
    for context in (4096, 16384, 32768):
        fits = [
            vllm("qwen3-14b:BF16", f"{count}x {card}", context_tokens=context).verdict == "fits"
            for count in (1, 2, 3, 4)
        ]
        assert fits == sorted(fits)


def test_other_ways_are_offered() -> None:
    """Alternatives fit, are told apart by their sizes, and come with their commands."""
    plan = vllm("qwen3-14b:FP8", "4x rtx-4090", context_tokens=16384)
    labels = [each.label for each in plan.alternatives]
    assert len(set(labels)) == len(labels) > 1
    assert all(each.verdict == "fits" and each.argv[:2] == ["vllm", "serve"] for each in plan.alternatives)
    assert any("pipeline parallel" in label for label in labels)
    assert all(each.max_context_tokens >= 16384 for each in plan.alternatives)


def test_many_users_may_be_served_by_copies() -> None:
    """With as many streams as cards, data parallelism is weighed too."""
    plan = vllm("qwen3-8b:FP8", "4x rtx-4090", context_tokens=64 * 2048, parallel=64)
    sizes = [engine_of(plan).data_parallel_size]
    sizes += [each.engine.data_parallel_size for each in plan.alternatives if isinstance(each.engine, VllmEnginePlan)]
    assert max(sizes) > 1


def test_pipelines_are_advised_for_prompts_where_there_is_no_nvlink() -> None:
    """Four cards over PCI Express reduce whole prompts slowly; joined by NVLink nothing is said."""
    codes = [each.code for each in vllm("qwen3-32b:FP8", "4x rtx-4090", context_tokens=16384).advice]
    assert "pipeline-for-prompts" in codes
    joined = vllm("llama-3.3-70b:BF16", "4x h100-sxm5-80gb", context_tokens=16384)
    assert "pipeline-for-prompts" not in [each.code for each in joined.advice]


def test_the_least_bad_partition_is_shown_where_nothing_fits() -> None:
    """Unequal cards that are too small together are short by what is missing, not by a bad division."""
    cards = ("rtx-3090", "rtx-4090", "rtx-5090")
    plan = vllm("llama-3.3-70b:FP8-DYNAMIC", *cards, context_tokens=8192)
    even = vllm("llama-3.3-70b:FP8-DYNAMIC", *cards, context_tokens=8192, pp_layer_partition=[27, 27, 26])
    assert plan.verdict == even.verdict == "does_not_fit"
    assert plan.shortfall_bytes < even.shortfall_bytes
