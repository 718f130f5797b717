"""What callers may ask in a while."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.planning.access import rate
from service.planning.access.costs import COSTS, FREE, cost_of
from service.planning.access.rate import Rate, Throttle
from service.planning.access.use import Use


class Clock:
    """A clock that is moved by hand."""

    now_s = 1000.0

    def __call__(self) -> float:
        """What time it is."""
        return self.now_s


def throttle_of(text: str) -> tuple[Throttle, Clock]:
    clock = Clock()
    return Throttle(Rate.of(text), clock), clock


def reporting(text: str) -> tuple[Throttle, Clock]:
    """A throttle that reports to others from now on."""
    throttle, clock = throttle_of(text)
    assert throttle.report().uses == {}
    return throttle, clock


@pytest.mark.parametrize(
    "text", ["", "600", "0/minute", "-1/minute", "600/day", "600 / minute", "1e3/minute", "1/minutes"]
)
def test_what_is_no_rate(text: str) -> None:
    """A rate that could be misread is refused."""
    with pytest.raises(ValueError, match="600/minute"):
        Rate.of(text)


def test_a_quota_is_used_up_and_comes_back() -> None:
    """All of it at once, then as much as time gives back; the wait that is told is enough and needed."""
    throttle, clock = throttle_of("60/minute")
    assert [throttle.charge("a", 1).remaining for _ in range(60)] == list(range(59, -1, -1))
    refused = throttle.charge("a", 1)
    assert refused.wait_s == pytest.approx(1)
    assert throttle.charge("b", 1).wait_s == 0
    clock.now_s += refused.wait_s - 0.01
    assert throttle.charge("a", 1).wait_s > 0
    clock.now_s += 0.01
    assert throttle.charge("a", 1).wait_s == 0
    clock.now_s += 3600
    assert throttle.charge("a", 1).remaining == 59


def test_a_refusal_costs_nothing() -> None:
    """Who keeps knocking waits no longer."""
    throttle, _ = throttle_of("10/second")
    throttle.charge("a", 10)
    assert {round(throttle.charge("a", 5).wait_s, 6) for _ in range(100)} == {0.5}


def test_what_costs_more_than_the_quota_takes_all_of_it() -> None:
    """No request is impossible for ever."""
    throttle, clock = throttle_of("10/second")
    assert throttle.charge("a", 50).wait_s == 0
    assert throttle.charge("a", 50).wait_s == pytest.approx(1)
    clock.now_s += 1
    assert throttle.charge("a", 50).wait_s == 0


def test_callers_beyond_the_most_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory has an end, and it is the one who was quiet longest who starts anew."""
    monkeypatch.setattr(rate, "MOST_CALLERS", 2)
    throttle, _ = throttle_of("10/second")
    for caller in ("a", "b", "a", "c"):
        throttle.charge(caller, 4)
    assert throttle.charge("b", 4).remaining == 6
    assert throttle.charge("c", 4).remaining == 2


@given(st.lists(st.tuples(st.floats(0, 30), st.integers(1, 40)), max_size=60))
def test_no_window_holds_more_than_twice_the_quota(asked: list[tuple[float, int]]) -> None:
    """Whatever the order, what passes in any window is at most the quota that was saved and the one that came back."""
    throttle, clock = throttle_of("60/minute")
    passed: list[tuple[float, int]] = []
    for pause_s, cost in asked:
        clock.now_s += pause_s
        standing = throttle.charge("a", cost)
        assert (standing.wait_s == 0) or standing.remaining < cost
        if standing.wait_s == 0:
            passed.append((clock.now_s, cost))
        recent = [units for moment, units in passed if moment > clock.now_s - 60]
        assert sum(recent) <= 120


def test_what_was_learned_counts_as_if_it_had_passed_here() -> None:
    """What others let through is added to what passed here meanwhile."""
    throttle, clock = reporting("60/minute")
    throttle.charge("a", 10)
    report = throttle.report()
    assert (report.uses["a"].added_s, report.uses["a"].until_s) == (10, clock.now_s + 10)
    throttle.charge("a", 5)
    throttle.learned(report, {"a": 40.0, "b": 60.0})
    assert throttle.charge("a", 1).remaining == 60 - 40 - 5 - 1
    assert throttle.charge("b", 1).wait_s == pytest.approx(1)
    assert throttle.report().uses["a"].added_s == 6


def test_a_report_that_reached_nobody_is_told_later() -> None:
    """Together with what passed since, until that is too long ago to be added up."""
    throttle, clock = reporting("60/minute")
    throttle.charge("a", 10)
    throttle.returned(throttle.report())
    clock.now_s += 1
    throttle.charge("a", 5)
    late = throttle.report()
    assert late.uses["a"].added_s == 15
    assert late.uses["a"].until_s == clock.now_s + 14
    throttle.returned(late)
    clock.now_s += rate.ALONE_AFTER_S
    alone = throttle.report()
    assert (alone.uses["a"].added_s, alone.uses["a"].until_s) == (0, late.uses["a"].until_s)
    throttle.learned(alone, {})
    throttle.charge("a", 5)
    assert throttle.report().uses["a"].added_s == 5


def test_reports_of_callers_beyond_the_most_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the others cannot be told, memory has an end too."""
    monkeypatch.setattr(rate, "MOST_CALLERS", 2)
    throttle, _ = reporting("10/second")
    for caller in ("a", "b", "a", "c"):
        throttle.charge(caller, 4)
    assert set(throttle.report().uses) == {"a", "c"}


@given(st.lists(st.tuples(st.floats(0, 30), st.floats(0.01, 40)), min_size=1, max_size=30), st.floats(900, 1100))
def test_many_charges_are_told_as_one(charges: list[tuple[float, float]], used_until_s: float) -> None:
    """Whatever was used before, their sum makes the same of it as one after the other."""
    now_s, expected, use = 1000.0, used_until_s, None
    for pause_s, cost_s in charges:
        now_s += pause_s
        expected = max(expected, now_s) + cost_s
        one = Use(added_s=cost_s, until_s=now_s + cost_s)
        use = one if use is None else use.then(one)
    assert use is not None
    assert use.after(used_until_s) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("method", "path", "cost"),
    [
        ("POST", "/plan", 1), ("GET", "/", 1), ("GET", "/gpus", 1), ("GET", "*", 1),
        ("POST", "/recommend", COSTS["POST", "/recommend"]), ("GET", "/plans/pln_1/curves", 10),
        *(("GET", f"/{part}", 0) for part in sorted(FREE)), ("GET", "/static/page.js", 0),
    ],
)  # fmt: skip
def test_costs(method: str, path: str, cost: int) -> None:
    """Health is never refused, and what works longer costs more."""
    assert cost_of(method, path) == cost
