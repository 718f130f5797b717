"""Compute buffers against every golden row: what llama.cpp allocates, for the server and for llama-bench."""

import statistics
from collections.abc import Sequence

import pytest

from tests.compute_rows import ComputeFigure, compute_figures
from tests.golden_rows import golden_rows

LONG_GRAPHS = frozenset({"kimi-k3", "deepseek4", "deepseek32", "glm-dsa", "minimax-m3"})
"""Architectures of up to 17,000 nodes even without repeated blocks; every third row of them is enough."""


def figures_of(*files: str) -> list[ComputeFigure]:
    """All figures of rows whose model is in the catalogue."""
    rows = [row for file in files for row in golden_rows(file) if row.has_header]
    long = [row for row in rows if row.model.architecture in LONG_GRAPHS]
    chosen = [row for row in rows if row.model.architecture not in LONG_GRAPHS] + long[::3]
    return [figure for row in chosen for figure in compute_figures(row)]


@pytest.fixture(scope="module")
def catalogue_figures() -> list[ComputeFigure]:
    """Figures of models of the catalogue."""
    return figures_of("placement", "placement_new", "quants")


@pytest.fixture(scope="module")
def tiny_figures() -> list[ComputeFigure]:
    """Figures of the tiny models of further architectures."""
    return figures_of("architectures")


def by_architecture(figures: Sequence[ComputeFigure]) -> str:
    """A line per architecture for a failing test: exact figures, mean and largest error."""
    lines = []
    for name in sorted({figure.row.model.architecture for figure in figures}):
        errors = [figure.error for figure in figures if figure.row.model.architecture == name]
        exact = sum(error == 0 for error in errors)
        lines.append(
            f"{name:18} {exact:4} of {len(errors):4} {statistics.fmean(map(abs, errors)):8.3%} {min(errors):+.2%}"
        )
    return "\n".join(lines)


def test_errors_are_small(catalogue_figures: list[ComputeFigure]) -> None:
    """On average at most 1 %, and for all but one in twenty at most 5 %."""
    errors = sorted(abs(figure.error) for figure in catalogue_figures)
    assert len(errors) > 5000
    assert statistics.fmean(errors) <= 0.01, by_architecture(catalogue_figures)
    assert errors[int(len(errors) * 0.95)] <= 0.05, by_architecture(catalogue_figures)


def test_almost_nothing_is_underestimated(catalogue_figures: list[ComputeFigure]) -> None:
    """At most one in a hundred buffers is planned more than 2 % too small."""
    under = [figure for figure in catalogue_figures if figure.error < -0.02]
    assert len(under) <= 0.01 * len(catalogue_figures), by_architecture(under)


def test_most_buffers_are_exact(catalogue_figures: list[ComputeFigure]) -> None:
    """95 in 100 buffers equal llama.cpp's to the byte."""
    exact = sum(figure.error == 0 for figure in catalogue_figures)
    assert exact >= 0.95 * len(catalogue_figures), by_architecture(catalogue_figures)


def test_tiny_models_are_exact_too(tiny_figures: list[ComputeFigure]) -> None:
    """95 in 100 buffers of the 74 tiny models equal llama.cpp's."""
    exact = sum(figure.error == 0 for figure in tiny_figures)
    assert len(tiny_figures) > 600
    assert exact >= 0.95 * len(tiny_figures), by_architecture(tiny_figures)
