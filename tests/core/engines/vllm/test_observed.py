"""Figures that vLLM printed on real GPUs are those that the rules give."""

from benchmarks.observed_vllm_report import ROOT, report
from tests.observed_vllm import (
    DIFFERENCES,
    available_compared,
    capacities_compared,
    weights_compared,
)


def test_weights_per_card_are_as_printed() -> None:
    """Within 1 % on at least nine of ten logs, and what is missed is explained."""
    compared = weights_compared()
    missed = {each.row.id for each in compared if abs(each.error) > 0.01}
    assert len(compared) >= 17
    assert len(missed) <= 0.1 * len(compared)
    assert missed <= DIFFERENCES.keys()


def test_most_weights_are_equal_to_a_thousandth() -> None:
    """Shapes, padding and the allocator's own rounding leave nothing to explain."""
    compared = weights_compared()
    assert sum(abs(each.error) <= 0.001 for each in compared) >= 0.6 * len(compared)


def test_tokens_and_concurrency_are_within_print_rounding() -> None:
    """From the memory printed, on at least nine of ten figures."""
    compared = capacities_compared()
    missed = {each.row.id for each in compared if not each.is_within_rounding}
    assert len(compared) >= 28
    assert len(missed) <= 0.1 * len(compared)
    assert missed <= DIFFERENCES.keys()


def test_memory_for_the_cache_is_close() -> None:
    """Within 5 % on at least seven of ten logs whose command line and card are known, estimates included."""
    compared = available_compared()
    missed = {each.row.id for each in compared if abs(each.error) > 0.05}
    assert len(compared) >= 15
    assert len(missed) <= 0.3 * len(compared)
    assert missed <= DIFFERENCES.keys()


def test_the_report_is_that_of_the_rules() -> None:
    """benchmarks/observed_vllm.md is what benchmarks/observed_vllm_report.py prints."""
    assert (ROOT / "benchmarks/observed_vllm.md").read_text("utf-8") == "\n".join(report()) + "\n"
