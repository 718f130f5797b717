"""Measurements shift predictions as far as they can tell, and no further."""

from math import exp, isclose, log, prod, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.correction_constants import CALIBRATED_SHARES, SHARES, Level, deviation
from service.core.corrections import Observation, Place, Standing, correction, evidence_of, standing

SD = 0.2
NOISE = 1e-6
LEVELS: tuple[Level, ...] = tuple(SHARES)


def place_of(level: Level, name: str) -> dict[Place, float]:
    return {(level, name): 1.0}


def figure(card: str = "a", model: str = "m", depth: str = "0", *, quant: str = "q", group: str = "g") -> Standing:
    """A figure of a model on a card at a depth."""
    parts: dict[Place, float] = {
        ("backend", "b"): 1.0,
        ("quant", quant): 1.0,
        ("model", model): 1.0,
        ("card", card): 1.0,
        ("card-quant", f"{card} {quant}"): 1.0,
        ("card-model", f"{card} {model}"): 1.0,
        ("setup", f"{card} {model}"): 1.0,
        ("configuration", f"{card} {model} {depth}"): 1.0,
        ("build", f"{card} {model} {depth}"): 1.0,
    }
    return standing(group, parts, SHARES, log_sd=SD)


def measured(what: Standing, ratio: float, name: str = "1", noise: float = NOISE) -> Observation:
    return Observation(id=name, standing=what, log_ratio=log(ratio), noise_variance=noise)


def factor(what: Standing, *observations: Observation) -> float:
    told = correction(evidence_of(observations), what, noise_variance=0.0)
    return 1.0 if told is None else told.factor


@pytest.mark.parametrize("shares", [SHARES, CALIBRATED_SHARES])
def test_shares_are_of_the_whole_variance(shares: dict[Level, float]) -> None:
    """What a figure belongs to is responsible for all of its error."""
    assert isclose(sum(shares.values()), 1.0)
    assert set(shares) == set(LEVELS)


def test_the_same_configuration_is_predicted_as_measured() -> None:
    """A precise measurement of the very configuration replaces the prediction, and leaves its noise as the range."""
    told = correction(evidence_of([measured(figure(), 1.3)]), figure(), noise_variance=0.0)
    assert told is not None
    assert told.factor == pytest.approx(1.3, rel=1e-3)
    assert told.width_fraction < 0.02


def test_nearer_figures_move_more() -> None:
    """Another depth moves more than another model of the card, that more than another card, none beyond the figure."""
    seen = measured(figure(), 1.3)
    shifts = [factor(what, seen) for what in (figure(depth="9"), figure(model="n"), figure("z"), figure("z", "n"))]
    assert shifts == sorted(shifts, reverse=True)
    assert 1.0 < shifts[-1] < shifts[0] < 1.3


def test_other_groups_say_nothing() -> None:
    """Another engine, backend or quantity is left alone."""
    assert correction(evidence_of([measured(figure(), 1.3)]), figure(group="h"), noise_variance=0.0) is None


def test_more_measurements_of_a_card_move_its_other_models_further() -> None:
    """Evidence adds up towards what the measurements agree on."""
    seen = [measured(figure(model=f"m{index}"), 1.3, str(index)) for index in range(5)]
    shifts = [factor(figure(model="n"), *seen[:count]) for count in range(1, 6)]
    assert shifts == sorted(shifts)
    assert shifts[-1] < 1.3


def test_noise_is_believed_less() -> None:
    """A measurement that scatters as much as the prediction moves half as far."""
    assert factor(figure(), measured(figure(), 1.3, noise=SD**2)) == pytest.approx(sqrt(1.3), rel=1e-6)


def test_contradicting_measurements_meet_in_the_middle() -> None:
    """Two equally good measurements of one configuration average in the logarithm."""
    seen = [measured(figure(), 1.2, "1", 1e-4), measured(figure(), 1 / 1.2, "2", 1e-4)]
    assert factor(figure(), *seen) == pytest.approx(1.0, abs=1e-9)


def test_mixed_rigs_learn_from_each_of_their_cards() -> None:
    """A card that is half of a rig moves it half as far as it moves itself."""
    shares = {level: float(level == "card") for level in LEVELS}
    alone = standing("g", place_of("card", "a"), shares, log_sd=SD)
    mixed = standing("g", {("card", "a"): 0.5, ("card", "b"): 0.5}, shares, log_sd=SD)
    seen = measured(alone, 1.3)
    assert log(factor(mixed, seen)) == pytest.approx(log(factor(alone, seen)) / 2)


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from("mno"), st.floats(0.3, 3.0), st.floats(1e-6, 0.1)),
        min_size=1,
        max_size=12,
    )
)
def test_shifts_multiply_to_the_factor_and_ranges_never_widen(seen: list[tuple[str, str, float, float]]) -> None:
    """What each level contributes explains the whole, evidence never makes a figure less certain."""
    observations = [
        measured(figure(card, model), ratio, str(number), noise)
        for number, (card, model, ratio, noise) in enumerate(seen)
    ]
    told = correction(evidence_of(observations), figure(), noise_variance=1e-4)
    assert told is not None
    assert told.factor == pytest.approx(prod(shift.factor for shift in told.shifts))
    assert 0.0 < told.width_fraction <= 1.0
    furthest = max(abs(log(ratio)) for _, _, ratio, _ in seen)
    assert abs(log(told.factor)) <= 3 * furthest + 1e-9


def test_deviation_of_a_median_difference() -> None:
    """Half of all measurements differ by less than the median difference."""
    assert exp(0.6745 * deviation(0.107)) == pytest.approx(1.107, rel=1e-3)


def test_a_surprise_stays_where_it_belongs() -> None:
    """A figure far beyond the usual error is the set-up's own: itself as measured, models of other types hardly."""
    usual, surprising = measured(figure(), exp(2 * SD)), measured(figure(), exp(8 * SD))
    other = figure(model="n", quant="r")
    assert factor(figure(), surprising) == pytest.approx(exp(8 * SD), rel=0.01)
    assert 1.0 < factor(other, surprising) < factor(other, usual) ** 1.5


def test_several_models_off_by_the_same_are_the_card() -> None:
    """Two models far beyond the usual error agree: it is the card, and a third model follows."""
    seen = [measured(figure(model=name), exp(-4 * SD), name) for name in "mn"]
    third = figure(model="o", quant="r")
    assert factor(third, *seen) < exp(-2 * SD)
    assert factor(third, seen[0]) > exp(-1.5 * SD)
