"""Which graphs are looked at."""

from typing import Any

import pytest

from service.core.engines.llamacpp.compute import compute_buffers
from service.core.engines.llamacpp.compute.graph_inputs import graph_inputs
from service.core.engines.llamacpp.compute.graph_memory import Batch, graph_memory
from service.core.engines.llamacpp.compute.question import ComputeQuestion
from service.core.engines.llamacpp.compute.reserve import buffers_of, cells_by_kind
from service.core.problems import PlanProblem
from service.core.types import Backend, Model
from service.core.units import MIB
from tests.core.engines.llamacpp.compute.architectures import catalogue_models, small_models
from tests.core.engines.llamacpp.compute.questions import question
from tests.models import load_model

RPC: tuple[Backend, ...] = ("rpc", "rpc")


def generation_bytes(asked: ComputeQuestion) -> list[int]:
    """Buffers that the graph of single tokens needs."""
    inputs, n_seqs = graph_inputs(asked, symbolic=False), asked.ctx.n_seq_max
    graph = graph_memory(inputs, Batch(n_tokens=n_seqs, n_seqs=n_seqs, n_outputs=n_seqs), fused_post=True)
    sizes = [footprint.bytes_for(cells_by_kind(asked)) for footprint in graph]
    return [*(sizes[device] for device in inputs.built.stands_for), sizes[-1]]


def is_covered(model: Model, case: dict[str, Any]) -> bool:
    """Whether the plan has room for the graph of single tokens, or llama.cpp refuses the case."""
    try:
        asked = question(model, backends=RPC, **case)
        planned = compute_buffers(asked)
    except PlanProblem:
        return True
    needed = generation_bytes(asked)
    return all(have >= need for have, need in zip((*planned.device_bytes, planned.host_bytes), needed, strict=True))


@pytest.mark.parametrize("case", [{}, {"parallel": 4}, {"flash_attn": False}, {"on_host": 3}], ids=str)
def test_generation_never_needs_more_than_is_planned(case: dict[str, Any]) -> None:
    """Whether or not the graph of single tokens is looked at, the plan covers it, for every architecture."""
    models = small_models() if case else {**small_models(), **catalogue_models()}
    assert [name for name, model in models.items() if not is_covered(model, case)] == []


def test_logits_of_the_server_are_those_of_its_streams() -> None:
    """A vocabulary of 152 thousand words takes 297 MiB for every token of a batch, and 0.6 MiB for one stream."""
    model = load_model("qwen3-30b-a3b:Q4_K_M")
    server, bench = (
        compute_buffers(question(model, tool=tool)).device_bytes[0] for tool in ("llama-server", "llama-bench")
    )
    assert server < 100 * MIB
    assert bench == pytest.approx((296.75 + 4) * MIB, abs=MIB / 2)


def test_one_graph_stands_for_batches_that_are_passed_alike() -> None:
    """Tokens per batch matter only as far as they limit those of a pass: same graph, same buffers."""
    model = load_model("llama-3.1-8b:Q4_K_M")
    long, short = (question(model, backends=("cuda",), n_batch=n_batch) for n_batch in (2048, 1024))
    assert graph_inputs(long, symbolic=True) == graph_inputs(short, symbolic=True)
    assert graph_inputs(long, symbolic=False) != graph_inputs(short, symbolic=False)
    buffers = [buffers_of(graph_inputs(asked, symbolic=False), cells_by_kind(asked)) for asked in (long, short)]
    assert buffers == [compute_buffers(long)] * 2


def test_pipelines_keep_four_masks() -> None:
    """Two cards with a pipeline need three more masks and hidden states each than without."""
    model = load_model("llama-3.1-8b:Q4_K_M")
    with_pipeline, without = (
        compute_buffers(question(model, backends=RPC, context_tokens=32768, **case)).device_bytes[0]
        for case in ({}, {"n_cpu_moe": 1})
    )
    mask, hidden = 2 * 32768 * 512, 4 * 4096 * 512
    assert with_pipeline - without == pytest.approx(3 * mask + 4 * hidden, abs=MIB)


def test_quantised_caches_cost_cuda_their_copies() -> None:
    """q8_0 at 131072 tokens: 512 MiB of F16 copies of one layer's cache, while the feed-forward part is not there."""
    model = load_model("llama-3.1-8b:Q4_K_M")
    case: dict[str, Any] = {"context_tokens": 131072, "cache_type_k": "q8_0", "cache_type_v": "q8_0"}
    cuda, rpc = (compute_buffers(question(model, backends=(b,), **case)).device_bytes[0] for b in ("cuda", "rpc"))
    feed_forward = 3 * 4 * 14336 * 512
    assert 512 * MIB - feed_forward < cuda - rpc < 512 * MIB


def test_offloaded_experts_pass_through_the_first_card() -> None:
    """Experts of the host are copied to the first card for prompts, one matrix at a time; RPC devices compute none."""
    model = load_model("qwen3-30b-a3b:Q4_K_M")
    expert = model.tensor_by_name["blk.0.ffn_up_exps.weight"].size_bytes
    cuda, rpc = (compute_buffers(question(model, backends=(b,), n_cpu_moe=48)).device_bytes[0] for b in ("cuda", "rpc"))
    assert expert < cuda - rpc < 4 * expert


@pytest.mark.parametrize("parallel", [1, 40])
@pytest.mark.parametrize("case", [{"n_cpu_moe": 20}, {"on_host": 20}], ids=str)
def test_types_of_weights_matter_only_where_these_are_copied(case: dict[str, Any], parallel: int) -> None:
    """Blocks that differ in types alone stand for each other where single tokens are computed, if these are few."""
    asked = question(
        load_model("qwen3-30b-a3b:Q4_K_M"), backends=("cuda", "cuda"), parallel=parallel, context_tokens=40960, **case
    )
    typed, plain = (graph_inputs(asked, symbolic=False, types_matter=matter) for matter in (True, False))
    assert len(plain.built.layers) < len(typed.built.layers)
    assert compute_buffers(asked) == buffers_of(typed, cells_by_kind(asked))
