"""What cards that work on the same layer cost each other."""

from dataclasses import replace

import pytest

from service.core.timing.reductions import exchange_s, meeting_s, reduction_steps
from service.core.timing.work import Exchange
from tests.core.timing.machines import part, rates, work


@pytest.mark.parametrize(("cards", "steps"), [(2, 1), (3, 3), (4, 2), (5, 4), (6, 4), (7, 4), (8, 3), (16, 4)])
def test_cards_add_up_in_pairs(cards: int, steps: int) -> None:
    """A power of two takes its logarithm; what is beyond one folds in before and out after."""
    assert reduction_steps(cards) == steps


def test_a_meeting_grows_with_steps_and_cards() -> None:
    """Six cards need four steps of six copies, eight only three of eight, two one of two."""
    asked = work(*[part()] * 8, arrangement="tensor")
    times = {busy: meeting_s(asked, rates(asked), busy) for busy in (2, 6, 8)}
    assert times[2] < times[8] < times[6]


def test_two_cards_may_meet_in_one_kernel() -> None:
    """The engine's own takes half as long as copies that one thread starts."""
    staged = work(part(), part(), arrangement="tensor")
    own = replace(staged, exchange=Exchange(in_one_kernel=True))
    assert meeting_s(own, rates(own), 2) < 0.7 * meeting_s(staged, rates(staged), 2)


def test_what_is_staged_grows_with_cards_that_share_main_memory() -> None:
    """Every card copies in every step: four cards in two steps copy four times what two do in one."""
    exchange = Exchange(reductions=10, hidden_state_bytes=1000)
    asked = work(*[part()] * 4, arrangement="tensor", exchange=exchange)
    assert exchange_s(asked, rates(asked), 4, 512) == pytest.approx(4 * exchange_s(asked, rates(asked), 2, 512))


def test_rows_are_gathered_from_all_other_cards() -> None:
    """One card has its own rows already: of four cards three quarters pass."""
    asked = work(*[part()] * 4, arrangement="row", exchange=Exchange(row_bytes=1000))
    two, four = (exchange_s(asked, rates(asked), busy, 512) for busy in (2, 4))
    assert four / two == pytest.approx(0.75 / 0.5)
