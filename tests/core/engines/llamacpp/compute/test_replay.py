"""Memory events that are repeated for blocks that are not built are those of a graph of all blocks."""

from dataclasses import replace
from typing import Any

import pytest

from service.core.engines.llamacpp.compute.footprint import Footprint
from service.core.engines.llamacpp.compute.graph_inputs import GraphInputs, graph_inputs
from service.core.engines.llamacpp.compute.graph_memory import Batch, built_graph, graph_memory, memory_of
from service.core.engines.llamacpp.compute.question import ComputeQuestion
from service.core.engines.llamacpp.compute.repetition import replayed_blocks
from service.core.engines.llamacpp.compute.replay import NoReplayError
from tests.core.engines.llamacpp.compute.questions import question
from tests.models import load_model

MODELS = ("deepseek-v3.2:Q4_K_M", "deepseek-v4-flash:Q4_K_M", "glm-5.1:Q4_K_M", "minimax-m3:Q4_K_M")
CASES: tuple[dict[str, Any], ...] = (
    {"backends": ("cuda",)},
    {"backends": ("cuda", "cuda")},
    {"backends": ("rpc",) * 4, "parallel": 3, "kv_unified": True},
    {"backends": ("cuda",), "n_cpu_moe": 4},
    {"backends": ("cuda",), "n_cpu_moe": 200},
    {"backends": ("cuda", "rpc"), "n_cpu_moe": 30, "n_ubatch": 64},
    {"backends": ("cuda", "cuda"), "on_host": 5, "parallel": 4},
    {"backends": ("sycl",), "on_host": 30, "n_ubatch": 64},
    {"backends": ("metal",), "on_host": 200, "flash_attn": False},
    {"backends": ("cuda",), "cache_type_k": "q8_0", "cache_type_v": "q8_0"},
)


def events(footprint: Footprint) -> list[object]:
    """Memory events with pieces counted in the order they are taken, and sizes; what lasts as a whole."""
    pieces = footprint.pieces
    numbers: dict[int, int] = {}
    found: list[object] = [sorted(pieces.lasting.values()), pieces.lasting_bytes]
    for event in pieces.rest:
        piece = max(event, ~event)
        number = numbers.setdefault(piece, len(numbers))
        size = pieces.constant.get(piece, pieces.varying.get(piece))
        found.append((event >= 0, number, size, numbers.get(pieces.remains.get(piece, -1))))
    return found


def differing(asked: ComputeQuestion) -> list[Batch]:
    """Batches whose events are others than those of a graph of all blocks."""
    few, every = graph_inputs(asked, symbolic=True), graph_inputs(asked, symbolic=True, every_block=True)
    assert len(few.built.layers) < len(every.built.layers)
    n_seqs = asked.ctx.n_seq_max
    prompt = Batch(n_tokens=asked.ctx.n_tokens // n_seqs * n_seqs, n_seqs=n_seqs, n_outputs=asked.ctx.n_outputs)
    batches = (prompt, Batch(n_tokens=n_seqs, n_seqs=n_seqs, n_outputs=n_seqs))
    return [batch for batch in batches if footprints(few, batch) != footprints(every, batch)]


def footprints(inputs: GraphInputs, batch: Batch) -> list[list[object]]:
    """The events of every backend."""
    return [events(footprint) for footprint in memory_of(inputs, built_graph(inputs, batch).graph)]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_repeated_events_are_those_of_all_blocks(name: str, case: dict[str, Any]) -> None:
    """Event by event: pipelines, experts and blocks on the host, several streams, other caches and backends."""
    assert differing(question(load_model(name), context_tokens=16_384, **case)) == []


@pytest.mark.parametrize("name", [name for name in MODELS if not name.startswith("deepseek-v4")])
def test_repeated_events_are_those_of_all_blocks_with_caches_on_the_host(name: str) -> None:
    """Every block is cut into splits, whose copies are repeated as well."""
    case: dict[str, Any] = {"backends": ("cuda", "rpc"), "kv_offload": False, "n_cpu_moe": 7}
    assert differing(question(load_model(name), context_tokens=16_384, **case)) == []


def test_what_cannot_be_repeated_is_built_whole() -> None:
    """Blocks that are taken for others which they are not like: an error by itself, and all blocks in an answer."""
    asked = question(load_model("glm-5.1:Q4_K_M"), backends=("cuda",), context_tokens=16_384)
    inputs, every = graph_inputs(asked, symbolic=True), graph_inputs(asked, symbolic=True, every_block=True)
    repeated = inputs.built.replays
    assert repeated is not None
    wrong = replace(inputs, built=replace(inputs.built, replays=(*repeated[:10], 0, *repeated[11:])))
    batch = Batch(n_tokens=512, n_seqs=1, n_outputs=1)
    with pytest.raises(NoReplayError):
        memory_of(wrong, built_graph(wrong, batch).graph)
    assert [events(each) for each in graph_memory(wrong, batch, fused_post=True)] == footprints(every, batch)


def test_copies_of_weights_are_as_large_as_those_of_the_block() -> None:
    """Blocks are alike whatever the types of their quantised weights, which a device copies from the host."""
    model = load_model("glm-5.1:Q4_K_M")
    asked = question(model, backends=("cuda",), context_tokens=16_384, n_cpu_moe=200)
    types = {tensor.type.id for tensor in model.tensors if tensor.name.endswith("ffn_down_exps.weight")}
    assert len(types) > 1
    assert len(graph_inputs(asked, symbolic=True).built.layers) < 12
    assert differing(asked) == []


def test_blocks_repeat_those_with_the_same_past() -> None:
    """First and last ones of each kind are built, and one between whose neighbour before is alike."""
    kept, repeated = replayed_blocks("DDD" + "M" * 20)
    assert kept == (0, 1, 2, 3, 4, 5, 22)
    assert repeated == (0, 1, 2, 3, 4, *(5,) * 17, 22)
