"""Compute buffers of latent, sparse and compressed attention, Gemma 3n and 4 and drafts, against llama.cpp's own."""

from dataclasses import replace

import pytest

from service.core.engines.llamacpp.compute import ComputeQuestion, compute_buffers
from service.core.engines.llamacpp.placement import SCHED_COPIES
from service.core.engines.llamacpp.settings import Tool
from service.core.problems import Unsupported
from tests.compute_rows import observed_compute, planned_compute
from tests.golden_rows import GoldenRow, golden_rows

ALLOCATED = ("deepseek32", "gemma4", "glm-dsa", "minimax-m3")
ESTIMATED = ("deepseek4", "gemma3n")
TINY = (
    "deepseek2-moe",
    "deepseek4-moe",
    "dots3note-moe",
    "glm-dsa-moe",
    "hy_v4-moe",
    "minicpm3-dense",
    "mistral4-moe",
)
SMALL = tuple(sorted({row.model_name for row in golden_rows("graphs_latent")}))
TOOLS: tuple[tuple[Tool, str], ...] = (("llama-server", "compute_bytes"), ("llama-bench", "compute_bytes_bench"))


def estimated_by_the_fit(row: GoldenRow) -> bool:
    """Rows whose figures are the estimate that llama.cpp's own fit uses."""
    return bool(row.config.get("n_cpu_moe")) and row.n_devices > 1


def large_rows(*architectures: str) -> list[GoldenRow]:
    """Rows of the catalogue's models of these architectures."""
    rows = [row for file in ("placement", "placement_new", "quants") for row in golden_rows(file) if row.has_header]
    return [row for row in rows if row.model.architecture in architectures]


@pytest.mark.parametrize("architecture", ALLOCATED)
def test_large_models_need_what_llamacpp_allocates(architecture: str) -> None:
    """DeepSeek 3.2, GLM 5, MiniMax M3 and Gemma 4, as server and as benchmark."""
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
    """DeepSeek 4 and Gemma 3n need the fit's estimate, from which their golden figures leave out hidden states."""
    rows = large_rows(architecture)
    wrong = []
    for row in rows:
        for tool, key in TOOLS:
            planned, observed = planned_compute(row, tool, fit_view=True), observed_compute(row, key)
            if observed is not None and row.observed["pipeline_parallel"]:
                hidden_bytes = 4 * row.hp.n_embd * row.ctx(tool).n_tokens
                later = range(1, row.n_devices)
                planned = [each - SCHED_COPIES * hidden_bytes * (i in later) for i, each in enumerate(planned)]
            if observed is not None and planned != observed:
                wrong.append((str(row), tool))
    assert rows
    assert wrong == []


def test_deepseek2_needs_what_llamacpp_allocates() -> None:
    """Within 0.2 %: the headers lack the scale and norm of expert weights that the models were measured with."""
    wrong = [
        (str(row), tool)
        for row in large_rows("deepseek2")
        for tool, key in TOOLS
        if (observed := observed_compute(row, key)) is not None
        for mine, seen in zip(planned_compute(row, tool, fit_view=estimated_by_the_fit(row)), observed, strict=True)
        if abs(mine - seen) > 0.002 * seen
    ]
    assert wrong == []


@pytest.mark.parametrize("name", TINY)
def test_tiny_models_need_what_llamacpp_allocates(name: str) -> None:
    """The tiny models of further architectures, whose figures have logits for every token."""
    rows = [row for row in golden_rows("architectures") if row.model_name == name]
    wrong = [str(row) for row in rows if planned_compute(row, "llama-bench") != observed_compute(row, "compute_bytes")]
    assert len(rows) == 4
    assert wrong == []


@pytest.mark.parametrize("name", SMALL)
def test_small_models_need_what_llamacpp_allocates(name: str) -> None:
    """Several sequences, no flash attention, quantised caches, partial offload, caches and experts on the host."""
    rows = [row for row in golden_rows("graphs_latent") if row.model_name == name]
    wrong = [
        str(row)
        for row in rows
        if planned_compute(row, row.observed["tool"]) != [*row.observed["devices"], row.observed["host"]]
    ]
    assert len(rows) >= 18
    assert wrong == []


def test_draft_snapshots_of_compressor_states_are_copied() -> None:
    """The tiny DeepSeek 4 with three snapshots per sequence, as the same library allocates it on two devices."""
    row = GoldenRow(
        file="architectures",
        id="drafts",
        model_name="deepseek4-moe",
        config={"n_devices": 2, "ctx": 4096, "ngl": 99, "n_parallel": 4},
        observed={},
    )
    question = ComputeQuestion(
        model=row.model,
        hp=row.hp,
        ctx=replace(row.ctx(), n_rs_seq=3),
        slots=row.slots,
        backends=("rpc", "rpc"),
        pipeline_copies=SCHED_COPIES,
    )
    found = compute_buffers(question)
    assert [*found.device_bytes, found.host_bytes] == [59350528, 56803840, 12009472]


def test_plm_with_flash_attention_is_refused() -> None:
    """llama.cpp stops with a failed assertion; the way out is named."""
    row = next(row for row in golden_rows("graphs_latent") if row.model_name == "plm")
    with pytest.raises(Unsupported, match="flash_attn off"):
        planned_compute(replace(row, config={**row.config, "flash_attn": True}), "llama-server")
