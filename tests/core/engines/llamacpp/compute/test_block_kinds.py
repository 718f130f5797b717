"""Blocks that repeat others are left out of graphs: their buffers equal those of all blocks."""

from typing import Any

import pytest

from service.core.engines.llamacpp.compute import compute_buffers
from service.core.engines.llamacpp.compute.graph_inputs import graph_inputs
from service.core.problems import PlanProblem
from service.core.types import Backend, Model
from tests.core.engines.llamacpp.compute.architectures import catalogue_models, small_models
from tests.core.engines.llamacpp.compute.questions import question, with_every_block

RPC: tuple[Backend, ...] = ("rpc", "rpc")
CASES: tuple[dict[str, Any], ...] = (
    {"backends": RPC},
    {"backends": ("cuda",), "n_cpu_moe": 4},
    {"backends": ("cuda", "cuda"), "on_host": 5, "parallel": 4},
)
REORDERED: dict[str, Any] = {"backends": ("vulkan",), "flash_attn": False}


def differences(model: Model, case: dict[str, Any]) -> list[float]:
    """Relative errors of buffers without the blocks that are left out; none where none are, or llama.cpp refuses."""
    try:
        asked = question(model, **case)
        merged = compute_buffers(asked)
    except PlanProblem:
        return []
    if len(graph_inputs(asked, symbolic=False).built.layers) == asked.hp.n_layer:
        return []
    full = with_every_block(asked)
    pairs = zip((*merged.device_bytes, merged.host_bytes), (*full.device_bytes, full.host_bytes), strict=True)
    return [(mine - every) / every for mine, every in pairs]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_left_out_blocks_of_large_models_change_nothing(case: dict[str, Any]) -> None:
    """For every architecture of the catalogue: pipelines, experts on the host, blocks on the host."""
    wrong = {name: found for name, model in catalogue_models().items() if any(found := differences(model, case))}
    assert wrong == {}


@pytest.mark.parametrize("case", [*CASES[:2], REORDERED], ids=str)
def test_left_out_blocks_of_small_models_change_nothing(case: dict[str, Any]) -> None:
    """For every small model of the golden tables."""
    wrong = {name: found for name, model in small_models().items() if any(found := differences(model, case))}
    assert wrong == {}


@pytest.mark.parametrize("name", ["granitehybrid", "nemotron_h", "qwen35moe", "gemma3"])
def test_left_out_blocks_change_nothing_where_nodes_are_reordered(name: str) -> None:
    """Vulkan computes nodes of one block between those of the next."""
    model = next(model for model in catalogue_models().values() if model.architecture == name)
    assert not any(differences(model, REORDERED))
