"""Compute buffers of mixtures of experts, against what llama.cpp itself allocates."""

import pytest

from service.core.engines.llamacpp.settings import Tool
from tests.compute_rows import observed_compute, planned_compute
from tests.golden_rows import GoldenRow, golden_rows

LARGE = ("gpt-oss", "glm4moe", "llama4", "mimo2", "step35")
TINY = (
    "arctic-moe",
    "cohere2moe-moe",
    "ernie4_5-moe-moe",
    "exaone-moe-moe",
    "glm4moe-moe",
    "gpt-oss-moe",
    "granite_swa-dense",
    "llada-moe-moe",
    "llama4-moe",
    "maple-moe",
    "olmoe-moe",
    "qwen2moe-moe",
    "qwen3vlmoe-moe",
    "smallthinker-moe",
)
SMALL = tuple(sorted({row.model_name for row in golden_rows("graphs")}))
TOOLS: tuple[tuple[Tool, str], ...] = (("llama-server", "compute_bytes"), ("llama-bench", "compute_bytes_bench"))
MEASURED_LIKE_THE_FIT = "arch-0271"


def measured_like_the_fit(row: GoldenRow) -> bool:
    """Rows whose figures were not read from allocations, but are the estimate that llama.cpp's own fit uses."""
    return row.id == MEASURED_LIKE_THE_FIT or (bool(row.config.get("n_cpu_moe")) and row.n_devices > 1)


@pytest.mark.parametrize("file", ["placement", "placement_new", "quants"])
def test_large_models_need_what_llamacpp_allocates(file: str) -> None:
    """Every row of gpt-oss, GLM 4.5, Llama 4, MiMo 2 and Step 3.5, as server and as benchmark."""
    rows = [row for row in golden_rows(file) if row.has_header and row.model.architecture in LARGE]
    wrong = [
        (str(row), tool)
        for row in rows
        for tool, key in TOOLS
        if (observed := observed_compute(row, key)) is not None
        and planned_compute(row, tool, fit_view=measured_like_the_fit(row)) != observed
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
        if planned_compute(row, "llama-bench", fit_view=measured_like_the_fit(row))
        != observed_compute(row, "compute_bytes")
    ]
    assert len(rows) == 4
    assert wrong == []


@pytest.mark.parametrize("name", SMALL)
def test_small_models_need_what_llamacpp_allocates(name: str) -> None:
    """Several sequences, no flash attention, quantised caches, partial offload, caches and experts on the host."""
    rows = [row for row in golden_rows("graphs") if row.model_name == name]
    wrong = [
        str(row)
        for row in rows
        if planned_compute(row, row.observed["tool"]) != [*row.observed["devices"], row.observed["host"]]
    ]
    assert len(rows) >= 12
    assert wrong == []
