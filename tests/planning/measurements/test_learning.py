"""A user's own measurements are worth having: they cut the error on the card's other models."""

import pytest

from tests.own_measurements import gains, pooled


@pytest.mark.parametrize(("backend", "speed_factor"), [("cuda", 0.75), ("cuda", 1.3), ("rocm", 0.75), ("rocm", 1.3)])
def test_three_measurements_halve_the_error_on_the_other_models_of_an_unusual_card(
    backend: str, speed_factor: float
) -> None:
    """A card a quarter slower or faster than its kind, as its public figures would be: its other models follow."""
    before, after = pooled(list(gains(backend, speed_factor=speed_factor)))
    assert before > 0.15
    assert after < 0.5 * before


@pytest.mark.parametrize("backend", ["cuda", "rocm", "vulkan", "metal", "sycl"])
def test_three_measurements_do_no_harm_where_little_is_to_learn(backend: str) -> None:
    """On public figures as they are, most of whose cards the constants come from, nothing gets worse."""
    found = list(gains(backend))
    before, after = pooled(found)
    assert sum(gain.n for gain in found) > 50
    assert after < before + 0.005
