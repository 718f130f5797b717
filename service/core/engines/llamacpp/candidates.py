"""The first of many numbered candidates that fits, found with few graphs."""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from service.core.engines.llamacpp.question import Choice, Question
from service.core.engines.llamacpp.settings import LlamaCppSettings
from service.core.engines.llamacpp.splits import may_fit, placed_splits


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """Candidates numbered so that a higher number never fits worse: fewer layers, fewer experts, less context."""

    question: Question
    settings_of: Callable[[int], LlamaCppSettings]
    tokens_of: Callable[[int], int]

    def may_fit(self, number: int, spare_bytes: int = 0) -> bool:
        """Whether a candidate has room for all but compute buffers, and for `spare_bytes` on every card."""
        return may_fit(self.question, self.settings_of(number), self.tokens_of(number), spare_bytes)

    def least(self, first: int, last: int) -> Choice | None:
        """The fitting choice of the lowest number from `first` to `last`; None where there is none.

        Compute buffers are small beside the rest, so the lowest number is at or just behind the lowest one that is not
        ruled out: the search goes on from there in growing steps. On one card, buffers differ little from one candidate
        to the next, so that it goes on where there is room for the last buffer seen, if that is further.
        """
        low = first_true(self.may_fit, first, last + 1) - 1
        if low == last:
            return None
        step, high, guess = 1, low + 1, low + 1
        found, spare_bytes = self._look(high)
        while found is None and high < last:
            low, high, step = high, min(high + step, last), 2 * step
            guess = first_true(partial(self.may_fit, spare_bytes=spare_bytes), low + 1, last) if spare_bytes else high
            high = max(high, guess)
            found, spare_bytes = self._look(high)
        return None if found is None else self._lowest_between(low, high, found, guessed=high == guess)

    def _lowest_between(self, low: int, high: int, found: Choice, *, guessed: bool) -> Choice:
        """The fitting choice of the lowest number, where `low` does not fit and `high` does.

        guessed: whether it is likely to be just below `high`.
        """
        step = 1
        while high - low > 1:
            halfway = (low + high) // 2
            middle = max(high - step, halfway) if guessed else halfway
            better, _ = self._look(middle)
            if better is None:
                low = middle
            else:
                high, found, step = middle, better, 2 * step
        return found

    def _look(self, number: int) -> tuple[Choice | None, int]:
        """The first split of a candidate that fits; if none does, the compute buffer where there is one card."""
        spare_bytes = 0
        for choice in placed_splits(self.question, self.settings_of(number), self.tokens_of(number)):
            if choice.fits:
                return choice, 0
            order = choice.placement.device_order
            spare_bytes = choice.placement.devices[order[0]].compute_bytes if len(order) == 1 else 0
        return None, spare_bytes


def first_true(holds: Callable[[int], bool], first: int, end: int) -> int:
    """The lowest number from `first` on for which `holds`, as it does for all higher ones; `end` where none does."""
    return bisect_left(range(first, end), x=True, key=holds) + first
