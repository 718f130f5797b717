"""Compute buffers of dense, embedding, encoder-decoder and looped architectures, against llama.cpp's own."""

import pytest

from service.core.engines.llamacpp.compute.block_kinds import block_kinds
from service.core.engines.llamacpp.placement import SCHED_COPIES
from service.core.engines.llamacpp.settings import Tool
from tests.compute_rows import observed_compute, planned_compute
from tests.golden_rows import GoldenRow, golden_rows

TINY = (
    "arcee-dense",
    "bloom-dense",
    "cogvlm-dense",
    "dream-dense",
    "ernie4_5-moe",
    "exaone4-dense",
    "gemma2-dense",
    "gemma3-dense",
    "glm4-dense",
    "gptneox-dense",
    "granite-dense",
    "hunyuan-dense-dense",
    "hunyuan_vl-dense",
    "jais-dense",
    "maincoder-dense",
    "mellum-moe",
    "minicpm-dense",
    "minicpm-moe",
    "muse-glimmer-dense",
    "nanbeige-dense",
    "nemotron-dense",
    "olmo-dense",
    "paddleocr-moe",
    "phi2-dense",
    "plamo-dense",
    "plamo3-dense",
    "qwen-dense",
    "qwen2vl-dense",
    "refact-dense",
    "refact-moe",
    "smollm3-dense",
    "spark2_5-dense",
)
SMALL = tuple(sorted({row.model_name for row in golden_rows("graphs_dense")}))
TOOLS: tuple[tuple[Tool, str], ...] = (("llama-server", "compute_bytes"), ("llama-bench", "compute_bytes_bench"))


def large_rows(architecture: str) -> list[GoldenRow]:
    """Rows of the catalogue's models of one architecture."""
    rows = [row for file in ("placement", "placement_new", "quants") for row in golden_rows(file) if row.has_header]
    return [row for row in rows if row.model.architecture == architecture]


@pytest.mark.parametrize("architecture", ["gemma2", "gemma3"])
def test_gemma_needs_what_llamacpp_allocates(architecture: str) -> None:
    """Every row of Gemma 2 and 3, as server and as benchmark."""
    rows = large_rows(architecture)
    wrong = [
        (str(row), tool)
        for row in rows
        for tool, key in TOOLS
        if (observed := observed_compute(row, key)) is not None and planned_compute(row, tool) != observed
    ]
    assert rows
    assert wrong == []


def test_exaone4_needs_what_llamacpp_allocates() -> None:
    """EXAONE 4, whose golden figures lack a hidden state per copy of a pipeline on every device but the first."""
    # They were estimated without ties of norms to devices and corrected for what that usually adds; blocks that begin
    # without a norm have nothing to correct: small models of 64 blocks that were really allocated hold these copies.
    rows = large_rows("exaone4")
    wrong = []
    for row in rows:
        for tool, key in TOOLS:
            planned, observed = planned_compute(row, tool), observed_compute(row, key)
            if row.observed["pipeline_parallel"]:
                copies_bytes = SCHED_COPIES * 4 * row.hp.n_embd * row.ctx(tool).n_tokens
                planned = [each - copies_bytes * (0 < i < row.n_devices) for i, each in enumerate(planned)]
            if observed is not None and planned != observed:
                wrong.append((str(row), tool))
    assert rows
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
    """Several sequences, no flash attention, quantised caches, partial offload, and caches on the host."""
    rows = [row for row in golden_rows("graphs_dense") if row.model_name == name]
    wrong = [
        str(row)
        for row in rows
        if planned_compute(row, row.observed["tool"]) != [*row.observed["devices"], row.observed["host"]]
    ]
    assert len(rows) == 12
    assert wrong == []


def test_blocks_that_differ_by_rope_alone_are_told_apart() -> None:
    """Every fourth block of SmolLM 3 has no rope, and is no substitute for one that has."""
    row = next(row for row in golden_rows("graphs_dense") if row.model_name == "smollm3")
    kinds = block_kinds(row.model, row.hp)
    assert kinds[3] != kinds[0] == kinds[1] == kinds[2] == kinds[4] == kinds[5]
