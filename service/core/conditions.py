"""Conditions of tables: comparisons of named facts, read once and checked often."""

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

Fact: TypeAlias = int | float | bool | str | list[int] | None
Facts: TypeAlias = Mapping[str, Fact]

_CONDITION: Final = re.compile(
    r"([a-z_][a-z0-9_]*) (<|<=|>|>=|==|!=) (?:(\d+(?:\.\d+)?)|'([a-z0-9-]+)'|([a-z_][a-z0-9_]*))"
)
_OPERATORS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
_WORDS: Final = {"true": True, "false": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One comparison: of a fact with a value, or with another fact where `other` names one."""

    fact: str
    compare: Callable[[Any, Any], bool]
    value: float | bool | str | None = None
    other: str | None = None
    negative: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """Facts that it reads."""
        return (self.fact,) if self.other is None else (self.fact, self.other)

    def holds(self, facts: Facts) -> bool:
        """Whether it is fulfilled; a fact that is not known fulfils nothing but "is not"."""
        left = facts[self.fact]
        right = self.value if self.other is None else facts[self.other]
        if left is None or right is None:
            return self.negative and left is not right
        return self.compare(left, right)


def condition_of(text: str) -> Condition:
    """Read "fact >= 0.5", "fact == 'word'", "fact == true" or "fact > other_fact".

    Raises ValueError for anything else.
    """
    found = _CONDITION.fullmatch(text)
    if found is None:
        raise ValueError(f"no condition: {text!r}")
    fact, symbol, number, word, name = found.groups()
    value: float | bool | str | None = float(number) if number else word
    if name in _WORDS:
        value, name = _WORDS[name], None
    return Condition(fact=fact, compare=_OPERATORS[symbol], value=value, other=name, negative=symbol == "!=")


def all_hold(conditions: Sequence[Condition], facts: Facts) -> bool:
    """Whether every condition is fulfilled."""
    return all(condition.holds(facts) for condition in conditions)
