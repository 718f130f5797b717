"""Compute buffers of recurrent and hybrid models, against what llama.cpp itself allocates."""

from dataclasses import replace

import pytest

from service.core.engines.llamacpp.compute import ComputeQuestion, compute_buffers
from service.core.engines.llamacpp.placement import SCHED_COPIES
from service.core.engines.llamacpp.settings import Tool
from tests.compute_rows import observed_compute, planned_compute
from tests.golden_rows import GoldenRow, golden_rows

ALLOCATED = ("falcon-h1", "granitehybrid", "nemotron_h_moe", "qwen35", "qwen35moe", "qwen3next")
ESTIMATED = ("kimi-k3", "lfm2moe")
TINY = (
    "jamba-dense",
    "kimi-k3-moe",
    "kimi-linear-moe",
    "lfm2-dense",
    "lfm2moe-moe",
    "mamba2-dense",
    "minimax-01-moe",
    "nemotron_h-dense",
    "plamo2-dense",
    "qwen35-dense",
    "qwen35moe-moe",
)
SMALL = tuple(sorted({row.model_name for row in golden_rows("graphs_recurrent")}))
TOOLS: tuple[tuple[Tool, str], ...] = (("llama-server", "compute_bytes"), ("llama-bench", "compute_bytes_bench"))

WITH_SNAPSHOTS = {
    "bailingmoe3": [7411776, 3153984],
    "bailingmoe3-limited": [7417920, 3160128],
    "glm5-next": [17209664, 5377344],
    "glm5-next-shared-indexer": [12304704, 4849984],
    "kimi-k3": [8923200, 3151936],
    "kimi-k3-plain": [7442496, 3151936],
    "lfm2": [6305856, 3158080],
    "lfm2-bidirectional": [6307904, 3158080],
    "lfm2-windowed": [5257280, 2109504],
    "lfm2moe": [6350912, 3158080],
    "nemotron_h": [11071552, 3156032],
    "nemotron_h_moe": [11857984, 3156032],
    "qwen35": [9502784, 3164224],
    "qwen35moe": [9543744, 3164224],
    "qwen4exp": [21106752, 5376064],
    "qwen4exp-without-ngrams": [21106752, 4835392],
}
"""Allocations of one device and the host with three snapshots for each of two sequences, 4096 tokens of context."""


TINY_BUT_ESTIMATED = frozenset(f"arch-0{number}" for number in (235, 237, 238, 309, 310, 351))
"""Rows of tiny models whose figures are the fit's estimate: what the same headers really allocate is otherwise."""


def estimated_by_the_fit(row: GoldenRow) -> bool:
    """Rows whose figures are the estimate that llama.cpp's own fit uses."""
    return row.id in TINY_BUT_ESTIMATED or (bool(row.config.get("n_cpu_moe")) and row.n_devices > 1)


def large_rows(architecture: str) -> list[GoldenRow]:
    """Rows of the catalogue's models of an architecture."""
    rows = [row for file in ("placement", "placement_new", "quants") for row in golden_rows(file) if row.has_header]
    return [row for row in rows if row.model.architecture == architecture]


def corrected_estimate(row: GoldenRow, tool: Tool) -> list[int]:
    """What the fit works with, less a hidden state per copy of the pipeline on every device but the first."""
    hidden_bytes = 4 * row.hp.n_embd * row.ctx(tool).n_tokens
    later = range(1, row.n_devices if row.observed["pipeline_parallel"] else 1)
    estimate = planned_compute(row, tool, fit_view=True)
    return [each - SCHED_COPIES * hidden_bytes * (i in later) for i, each in enumerate(estimate)]


@pytest.mark.parametrize("architecture", ALLOCATED)
def test_large_models_need_what_llamacpp_allocates(architecture: str) -> None:
    """Every row of hybrids whose blocks hand over one hidden state, as server and as benchmark."""
    rows = large_rows(architecture)
    wrong = [
        (str(row), tool)
        for row in rows
        for tool, key in TOOLS
        if (observed := observed_compute(row, key)) is not None
        and planned_compute(row, tool, fit_view=estimated_by_the_fit(row)) != observed
    ]
    assert rows
    assert wrong == []


@pytest.mark.parametrize("architecture", ESTIMATED)
def test_large_models_need_what_was_estimated(architecture: str) -> None:
    """LFM2 and Kimi K3, whose golden figures are corrected estimates that are too low behind the first device."""
    rows = large_rows(architecture)
    wrong = [
        (str(row), tool)
        for row in rows
        for tool, key in TOOLS
        if (observed := observed_compute(row, key)) is not None and corrected_estimate(row, tool) != observed
    ]
    assert rows
    assert wrong == []


@pytest.mark.parametrize("name", TINY)
def test_tiny_models_need_what_llamacpp_allocates(name: str) -> None:
    """The tiny models of further architectures, whose figures have logits for every token."""
    rows = [row for row in golden_rows("architectures") if row.model_name == name]
    wrong = [
        str(row)
        for row in rows
        if planned_compute(row, "llama-bench", fit_view=estimated_by_the_fit(row))
        != observed_compute(row, "compute_bytes")
    ]
    assert len(rows) == 4
    assert wrong == []


@pytest.mark.parametrize("name", SMALL)
def test_small_models_need_what_llamacpp_allocates(name: str) -> None:
    """Several sequences, no flash attention, quantised caches, partial offload, caches and experts on the host."""
    rows = [row for row in golden_rows("graphs_recurrent") if row.model_name == name]
    wrong = [
        str(row)
        for row in rows
        if planned_compute(row, row.observed["tool"]) != [*row.observed["devices"], row.observed["host"]]
    ]
    assert len(rows) >= 17
    assert wrong == []


@pytest.mark.parametrize("name", sorted(WITH_SNAPSHOTS))
def test_snapshots_of_drafts_are_stored(name: str) -> None:
    """States of the last tokens are kept for drafts that are turned down."""
    row = GoldenRow(
        file="graphs_recurrent",
        id="drafts",
        model_name=name,
        config={"n_devices": 1, "ctx": 4096, "ngl": 99, "n_parallel": 2},
        observed={},
    )
    question = ComputeQuestion(
        model=row.model, hp=row.hp, ctx=replace(row.ctx(), n_rs_seq=3), slots=row.slots, backends=("rpc",)
    )
    found = compute_buffers(question)
    assert [*found.device_bytes, found.host_bytes] == WITH_SNAPSHOTS[name]
