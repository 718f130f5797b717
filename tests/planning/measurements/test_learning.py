"""A user's own measurements are worth having: they cut the error on the card's other models."""

import pytest

from tests.own_measurements import gains, pooled


@pytest.mark.parametrize(("backend", "left_fraction"), [("rocm", 0.75), ("vulkan", 0.95), ("sycl", 1.0)])
def test_three_measurements_cut_the_error_on_the_cards_other_models(backend: str, left_fraction: float) -> None:
    """Three figures of a card bring the mean error on models that were not measured to this part of what it was."""
    found = list(gains(backend))
    before, after = pooled(found)
    assert sum(gain.n for gain in found) > 50
    assert after < left_fraction * before


def test_cards_that_are_known_well_are_not_made_worse() -> None:
    """On CUDA, whose constants many cards share, three figures of one card change the others' error by little."""
    before, after = pooled(list(gains("cuda")))
    assert after < before + 0.005
