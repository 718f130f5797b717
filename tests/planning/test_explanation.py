"""What an answer says of how it came about."""

import pytest

from tests.planner import ask

NO_KERNELS = "no kernels for prompts"


@pytest.mark.parametrize(
    ("gpu", "month", "told"),
    [("arc-pro-b70", "2026-03", True), ("arc-pro-b70", "2026-08", False), ("rtx-3090", "2026-03", False)],
)
def test_builds_without_kernels_for_a_card_are_told(gpu: str, month: str, told: bool) -> None:
    """Whoever asks about an old build learns what its prompts lack, and how much that takes."""
    plan = ask("llama-3.1-8b:Q4_K_M", gpu, workload={"context_tokens": 4096}, engine={"date": month})
    steps = [step for step in plan.explanation if NO_KERNELS in step]
    assert len(steps) == told
    assert all("times as long" in step for step in steps)
