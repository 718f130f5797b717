"""A graph that is kept for further placements is the one that would be built for each."""

from typing import Any

import pytest

from service.core.engines.llamacpp.compute.graph_inputs import GraphInputs, graph_inputs
from service.core.engines.llamacpp.compute.graph_memory import Batch, built_graph, memory_of, placed_graph
from service.core.types import Model
from tests.core.engines.llamacpp.compute.architectures import small_models
from tests.core.engines.llamacpp.compute.questions import question
from tests.models import load_model

PLACEMENTS: tuple[dict[str, Any], ...] = (
    {"backends": ("cuda", "cuda"), "n_cpu_moe": 20},
    {"backends": ("cuda", "cuda"), "on_host": 10},
    {"backends": ("vulkan",), "n_cpu_moe": 3},
    {"backends": ("rpc", "rpc", "rpc")},
    {"backends": ("cuda", "cuda"), "n_cpu_moe": 20},
)


def events(inputs: GraphInputs, batch: Batch, *, kept: bool) -> list[object]:
    """Memory events of every backend and the sizes of all pieces."""
    if kept:
        with placed_graph(inputs, batch, fused_post=True) as graph:
            found = memory_of(inputs, graph)
    else:
        found = memory_of(inputs, built_graph(inputs, batch).graph)
    pieces = [footprint.pieces for footprint in found]
    return [(each.rest, each.constant, each.varying, each.lasting, each.lasting_bytes, each.remains) for each in pieces]


def differing(model: Model, case: dict[str, Any]) -> list[Batch]:
    """Batches whose kept graph is another one than that which is built for them."""
    asked = question(model, context_tokens=4096, **case)
    inputs, n_seqs = graph_inputs(asked, symbolic=False, every_block=True), asked.ctx.n_seq_max
    prompt = Batch(n_tokens=asked.ctx.n_tokens, n_seqs=n_seqs, n_outputs=asked.ctx.n_outputs)
    batches = (prompt, Batch(n_tokens=n_seqs, n_seqs=n_seqs, n_outputs=n_seqs))
    return [batch for batch in batches if events(inputs, batch, kept=True) != events(inputs, batch, kept=False)]


@pytest.mark.parametrize("name", ["kimi-k3:Q4_K_M", "deepseek-v3.2:Q4_K_M", "deepseek-v4-flash:Q4_K_M"])
def test_a_kept_graph_serves_every_placement(name: str) -> None:
    """Experts, blocks and nothing on the host, on one card or several, and the first placement once more."""
    model = load_model(name)
    assert [case for case in PLACEMENTS if differing(model, case)] == []


def test_a_kept_graph_serves_every_architecture() -> None:
    """For every small model of the golden tables: blocks on the host after none."""
    cases = ({"backends": ("cuda", "cuda")}, {"backends": ("cuda", "cuda"), "on_host": 1})
    wrong = [name for name, model in small_models().items() if any(differing(model, case) for case in cases)]
    assert wrong == []
