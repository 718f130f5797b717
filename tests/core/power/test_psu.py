"""Supplies: lasting load, steps, several of them, and what is recommended."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.catalog.power_facts import power_facts
from service.core.machine import Psu
from service.core.power.psu import CardPower, psu_loads, recommended_psu_w, transient_w

FACTS = power_facts()


def cards(*watts: float) -> list[CardPower]:
    return [CardPower(limit_w=each, own_w=each) for each in watts]


def recommended(rest_w: float, watts: list[float], vendor_w: float = 0, psu: Psu | None = None, **mode: bool) -> float:
    return recommended_psu_w(
        rest_w, cards(*watts), vendor_w, psu or Psu(), FACTS, in_step=mode.get("in_step", False)
    )  # fmt: skip


def test_intel_s_example_takes_750_watts_of_atx_3_and_more_of_atx_2() -> None:
    """A 300 W card with 450 W of processor and rest steps to 930 W: 845 W of ATX 2, 1500 W with the worst step."""
    step_w = transient_w(450, cards(300), FACTS, worst_case=False)
    assert step_w == pytest.approx(930)
    assert step_w / 1.1 == pytest.approx(845, abs=1)
    assert step_w / 1.6 < 750
    assert transient_w(450, cards(300), FACTS, worst_case=True) == pytest.approx(1200)


def test_one_card_steps_at_a_time_unless_they_work_in_step() -> None:
    """In a layer split the largest card spikes and the others a little; in tensor split all of them do."""
    assert transient_w(100, cards(575, 350, 350), FACTS, worst_case=False) == pytest.approx(100 + 1.6 * 575 + 1.2 * 700)
    assert transient_w(100, cards(350, 350), FACTS, worst_case=False, in_step=True) == pytest.approx(100 + 2.5 * 700)
    capped = [CardPower(limit_w=200, own_w=350)] * 2
    assert transient_w(0, capped, FACTS, worst_case=False, in_step=True) == pytest.approx(2.5 * 700)
    assert transient_w(100, [], FACTS, worst_case=False) == 100


@pytest.mark.parametrize("duration_ratio", [627.5 / 575, 738.2 / 575, 823.6 / 575, 901.1 / 575, 659 / 575])
def test_measured_steps_of_a_5090_are_planned_for(duration_ratio: float) -> None:
    """What was measured at any duration lies below the step of the largest card."""
    assert duration_ratio <= FACTS.largest_step


def test_two_supplies_are_filled_alike_with_the_host_on_the_first() -> None:
    """Cards go to the supply with the least load; a stated division stays as it is."""
    even = psu_loads(300, cards(450, 450, 450, 450), Psu(count=2), FACTS)
    assert [load.sustained_w for load in even] == [1200, 900]
    stated = psu_loads(300, cards(450, 450, 450, 450), Psu(count=2, feeds=((3,), (0, 1, 2))), FACTS)
    assert [(load.cards, load.sustained_w) for load in stated] == [((3,), 750), ((0, 1, 2), 1350)]


@pytest.mark.parametrize(
    ("rest_w", "watts", "vendor_w", "expected_w"),
    [(148, [350], 750, 750), (148, [350, 350], 750, 1200), (148, [575], 1000, 1000), (382, [300] * 4, 750, 2000),
     (58, [], 0, 300), (148, [575] * 8, 1000, 6000)],
)  # fmt: skip
def test_a_supply_is_recommended_from_those_sold(
    rest_w: float, watts: list[float], vendor_w: float, expected_w: float
) -> None:
    """The smallest size sold that is filled to 80 %, bears a step and is not below the maker's minimum."""
    assert recommended(rest_w, watts, vendor_w) == expected_w


def test_cards_in_step_are_planned_with_a_supply_of_today() -> None:
    """Two RTX 3090 in tensor split do with 1200 W of ATX 3, an older supply would have to be much larger."""
    assert recommended(148, [350, 350], 750, in_step=True) == 1200
    assert recommended(148, [350, 350], 750, Psu(atx_version="2.4"), in_step=True) == 2000


WATTS = st.lists(st.floats(50, 700), min_size=1, max_size=8)
PSUS = st.sampled_from([Psu(), Psu(atx_version="3.1"), Psu(atx_version="2.4", worst_case=True)])


@given(st.floats(50, 800), WATTS, st.floats(0, 1000), PSUS, st.booleans(), st.floats(50, 700))
def test_adding_a_card_never_recommends_less(
    rest_w: float, watts: list[float], vendor_w: float, psu: Psu, in_step: bool, more_w: float
) -> None:
    """One more card never makes a smaller supply enough."""
    before = recommended(rest_w, watts, vendor_w, psu, in_step=in_step)
    assert recommended(rest_w, [*watts, more_w], vendor_w, psu, in_step=in_step) >= before


@given(st.floats(50, 800), WATTS, st.floats(0, 1000), PSUS, st.booleans(), st.floats(0, 300), st.integers(0, 7))
def test_raising_a_limit_never_recommends_less(
    rest_w: float, watts: list[float], vendor_w: float, psu: Psu, in_step: bool, more_w: float, index: int
) -> None:
    """A higher limit on any card never makes a smaller supply enough."""
    raised = [watt + more_w if number == index % len(watts) else watt for number, watt in enumerate(watts)]
    before = recommended(rest_w, watts, vendor_w, psu, in_step=in_step)
    assert recommended(rest_w, raised, vendor_w, psu, in_step=in_step) >= before


@pytest.mark.parametrize(
    ("psu", "bears"),
    [
        (Psu(), 1.1), (Psu(atx_version="2.52"), 1.1), (Psu(atx_version="3.0"), 1.6), (Psu(atx_version="ATX 3.1"), 1.6),
        (Psu(atx_version="v3.1"), 1.6), (Psu(atx_version="3.1", kind="server"), 1.1), (Psu(atx_version="?"), 1.1),
    ],
)  # fmt: skip
def test_only_atx_3_bears_long_steps(psu: Psu, bears: float) -> None:
    """Older, unknown and server supplies are planned with little reserve."""
    assert FACTS.psu_class(psu).transient_fraction == bears
