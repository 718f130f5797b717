"""Conditions of tables."""

import pytest

from service.core.conditions import Facts, all_hold, condition_of

FACTS: Facts = {"watts": 900.0, "limit": 800, "unknown": None, "kind": "server", "shared": True, "zero": 0}


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("watts > 800", True), ("watts > 900", False), ("watts >= 900", True), ("watts < 900.5", True),
        ("watts <= 899", False), ("watts > limit", True), ("limit > watts", False), ("kind == 'server'", True),
        ("kind != 'atx'", True), ("kind != 'server'", False), ("shared == true", True), ("shared == false", False),
        ("unknown > 0", False), ("unknown == false", False), ("watts > unknown", False), ("unknown != 'rack'", True),
        ("zero < 1", True), ("watts == 900", True),
    ],
)  # fmt: skip
def test_a_condition_compares_facts(text: str, holds: bool) -> None:
    """Numbers, words, truth and other facts are compared; what is not known fulfils nothing but "is not"."""
    assert condition_of(text).holds(FACTS) is holds


def test_all_conditions_have_to_hold() -> None:
    """One that fails is enough; none at all hold."""
    holding, failing = condition_of("watts > 800"), condition_of("watts > 1000")
    assert all_hold([holding], FACTS)
    assert not all_hold([holding, failing], FACTS)
    assert all_hold([], FACTS)


@pytest.mark.parametrize(
    "text", ["watts", "watts >> 1", "1 < watts", "watts > ", "watts > -1", "a.b > 1", "watts > 'A B'"]
)
def test_anything_else_is_refused(text: str) -> None:
    """A misspelt condition is no condition that never holds."""
    with pytest.raises(ValueError, match="no condition"):
        condition_of(text)


def test_a_condition_names_its_facts() -> None:
    """What a row reads can be checked against what there is."""
    assert condition_of("watts > limit").names == ("watts", "limit")
    assert condition_of("shared == true").names == ("shared",)
