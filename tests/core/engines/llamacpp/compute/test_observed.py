"""Compute buffers against public logs of CUDA, ROCm, Vulkan, Metal and SYCL cards."""

import pytest

from benchmarks.observed_report import ROOT, report
from tests.observed_compute import (
    DIFFERENCES,
    NOT_COMPARED,
    ObservedBuffer,
    compared_rows,
    observed_buffers,
    rows_with_buffers,
)

CLOSE_SHARE = 0.9
"""Share of buffers that a plan must hit within 10 %; four in five are asked for."""


def test_most_buffers_are_within_a_tenth() -> None:
    """Nine in ten, over all backends, versions and models."""
    buffers = observed_buffers()
    assert len(buffers) > 200
    assert sum(buffer.is_close for buffer in buffers) >= CLOSE_SHARE * len(buffers)


def test_four_in_five_are_equal() -> None:
    """Within a thousandth, which is the logs' rounding."""
    buffers = observed_buffers()
    assert sum(abs(buffer.error) <= 0.001 for buffer in buffers) >= 0.8 * len(buffers)


def test_every_backend_is_compared() -> None:
    """No backend's rules go without a log."""
    assert {buffer.row.backend for buffer in observed_buffers()} == {"cuda", "rocm", "vulkan", "metal", "sycl"}


@pytest.mark.parametrize(
    "buffer", [each for each in observed_buffers() if not each.is_close], ids=lambda each: each.row.id
)
def test_what_is_missed_is_explained(buffer: ObservedBuffer) -> None:
    """Every buffer that is off by more than a tenth is known, with what can be said about it."""
    assert DIFFERENCES[buffer.row.id]


def test_explanations_are_needed() -> None:
    """No explanation outlives the difference it explains, and no row is left out that prints no buffer."""
    assert {buffer.row.id for buffer in observed_buffers() if not buffer.is_close} == set(DIFFERENCES)
    assert set(NOT_COMPARED) <= {row.id for row in rows_with_buffers()}
    assert not set(NOT_COMPARED) & {row.id for row in compared_rows()}


def test_the_committed_table_is_current() -> None:
    """benchmarks/observed_compute.md is what benchmarks/observed_report.py prints."""
    assert (ROOT / "benchmarks/observed_compute.md").read_text("utf-8") == "\n".join(report()) + "\n"
