"""The wall: losses, circuits, heat."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.catalog.power_facts import power_facts
from service.core.power.wall import circuit_w, continuous_w, efficiency, heat_btu_per_h, wall_w

GOLD = power_facts().efficiency["gold"]


@pytest.mark.parametrize(
    ("volts", "amps", "expected_w"), [(120, 15, 1440), (120, 20, 1920), (240, 20, 3840), (240, 30, 5760)]
)
def test_a_circuit_carries_four_fifths_for_hours(volts: float, amps: float, expected_w: float) -> None:
    """Continuous loads may use 80 % of a breaker."""
    assert continuous_w(volts, amps) == pytest.approx(expected_w)


def test_a_european_circuit_peaks_at_3680_watts() -> None:
    """16 A at 230 V."""
    assert circuit_w(230, 16) == 3680


@pytest.mark.parametrize(
    ("load", "share"), [(0.05, 0.87), (0.2, 0.87), (0.5, 0.90), (0.75, 0.885), (1, 0.87), (2, 0.87)]
)
def test_a_gold_supply_is_best_at_half_load(load: float, share: float) -> None:
    """0.90 at half load, 0.87 at full load, on straight lines between."""
    assert efficiency(GOLD, load) == pytest.approx(share)


def test_fifteen_amperes_are_about_1300_watts_behind_the_supply() -> None:
    """1440 W of the wall become 1253 to 1325 W, by the efficiency reckoned with."""
    assert wall_w(1296, 2600, GOLD) == pytest.approx(1440, rel=0.01)
    assert wall_w(0, 1000, GOLD) == 0


@given(st.floats(1, 3000), st.floats(0.1, 500), st.floats(300, 3000), st.sampled_from(sorted(power_facts().efficiency)))
def test_more_load_never_takes_less_of_the_wall(dc_w: float, more_w: float, rated_w: float, name: str) -> None:
    """Losses never fall so fast that more load would draw less, and nothing comes from nowhere."""
    curve = power_facts().efficiency[name]
    assert wall_w(dc_w, rated_w, curve) <= wall_w(dc_w + more_w, rated_w, curve)
    assert wall_w(dc_w, rated_w, curve) > dc_w


def test_heat_is_stated_as_air_conditioners_do() -> None:
    """A watt is 3.41 BTU/h."""
    assert heat_btu_per_h(1500) == pytest.approx(5118)
