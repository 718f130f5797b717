"""Widths of ranges from held-out errors, group by group, and what they cover where they were not fitted."""

from collections.abc import Iterator, Mapping, Sequence
from zlib import crc32

import numpy as np

from benchmarks.calibration.held_out import FOLDS, HeldOut, card_of
from service.core.speed import Assumptions, Basis
from service.core.timing.figures import Range
from service.core.timing.processor import processors
from service.core.timing.ranges import COVERAGE_FRACTION, Quantity, Split, groups, split_of, width
from tests.speed_cases import SpeedCase

# below this a quantile says nothing: the nearest group's range is taken instead
_LEAST_MEASUREMENTS = 5
# Measurements that a group's parent counts as. Assumed: a group of twenty goes four fifths of its own way.
_PARENT_COUNTS_AS = 5.0
# a split has a width of its own where it was measured on so many types of cards, else that of its backend
_LEAST_CARDS_OF_A_SPLIT = 3
_QUANTITIES: Mapping[str, Quantity] = {
    "decode_tokens_per_s": "decode",
    "aggregate_decode_tokens_per_s": "streams",
    "prefill_tokens_per_s": "prefill",
    "ttft_s": "prefill",
    "speculation_gain": "speculation",
}
_FAMILIAR: Basis = "fitted"


def quantity_of(case: SpeedCase) -> Quantity:
    """The quantity whose range a measurement is compared with; a first token has that of its prompt."""
    return _QUANTITIES[case.metric]


def widths(cases: Sequence[SpeedCase], held: HeldOut, members: Sequence[int]) -> dict[str, Range]:
    """Widths that the measurements at `members` lead to; what they cover is not known yet, and 0.

    By backend and quantity the quantile of held-out errors that covers 85 of 100 new ones; drawn towards it the same by
    split, and itself towards the mean of all backends, the more the fewer measurements there are.

    Source: split conformal prediction, Lei et al., "Distribution-free predictive inference for regression" (2018).
    """
    own: dict[str, list[int]] = {}
    for index in members:
        if cases[index].metric != "ttft_s":
            for group in _levels(cases[index]):
                own.setdefault(group, []).append(index)
    own = {group: of for group, of in own.items() if len(of) >= _LEAST_MEASUREMENTS and not _is_thin(cases, group, of)}
    alone = [group for group, of in own.items() if ".serial." not in group and of == own.get(_together(group))]
    own = {group: of for group, of in own.items() if group not in alone}
    found: dict[str, float] = {}
    for group in sorted(own, key=lambda each: (".serial." not in each, each)):
        towards = _parent(group, found, own, held)
        found[group] = _drawn(_quantile(held, own[group]), towards, len(own[group]))
    return {
        group: Range(float(np.expm1(found[group])), len(of), 0.0, _familiar(cases, held, of))
        for group, of in sorted(own.items())
    }


def covered(cases: Sequence[SpeedCase], held: HeldOut) -> list[bool]:
    """Whether each measurement lies in the range that all others lead to, leaving out its fold.

    A fold is that of its cards; where fewer types of cards than folds were measured, a fifth of the models.
    """
    inside = [False] * len(cases)
    parts = _parts(cases, held)
    for part in sorted(set(parts)):
        rest = [index for index in range(len(cases)) if parts[index] != part]
        known = widths(cases, held, rest)
        for index in (index for index in range(len(cases)) if parts[index] == part):
            inside[index] = abs(held.errors[index]) <= np.log1p(_half_width(cases[index], held, index, known))
    return inside


def ranges(cases: Sequence[SpeedCase], held: HeldOut, inside: Sequence[bool]) -> dict[str, Range]:
    """Widths from all measurements, with what widths from others covered."""
    found = widths(cases, held, range(len(cases)))
    for group, known in found.items():
        of = [index for index, case in enumerate(cases) if case.metric != "ttft_s" and group in _levels(case)]
        share = sum(inside[index] for index in of) / len(of)
        found[group] = Range(known.width_fraction, known.n, share, known.familiar_fraction)
    return found


def _levels(case: SpeedCase) -> Iterator[str]:
    """Groups that a measurement belongs to: with its split, and for one card or a split by layers both together."""
    split: Split = split_of(case.work.arrangement, case.work.busy)
    yield from (group for group, factor in groups(case.backend, split, quantity_of(case))[:2] if factor == 1.0)


def _together(group: str) -> str:
    backend, _, quantity = group.split(".")
    return f"{backend}.serial.{quantity}"


def _is_thin(cases: Sequence[SpeedCase], group: str, of: Sequence[int]) -> bool:
    """Whether it is one way of using cards one after the other that few types of cards were measured in."""
    split = group.split(".")[1]
    return split in ("one", "layer") and len({card_of(cases[index]) for index in of}) < _LEAST_CARDS_OF_A_SPLIT


def _quantile(held: HeldOut, of: Sequence[int]) -> float:
    """Error that covers 85 of 100 new measurements: the new one is one more, beyond all that were seen."""
    errors = np.sort(np.abs(held.errors[list(of)]))
    rank = int(np.ceil(COVERAGE_FRACTION * (len(errors) + 1))) - 1
    return float(errors[min(rank, len(errors) - 1)])


def _drawn(own: float, towards: float | None, n: int) -> float:
    if towards is None:
        return own
    logs = n * np.log(own) + _PARENT_COUNTS_AS * np.log(towards)
    return float(np.exp(logs / (n + _PARENT_COUNTS_AS)))


def _parent(
    group: str, found: Mapping[str, float], own: Mapping[str, Sequence[int]], held: HeldOut
) -> float | None:  # fmt: skip
    """What a group is drawn towards: its backend's, or of a backend the geometric mean of all with that quantity."""
    split, quantity = group.split(".")[1:]
    if split in ("one", "layer"):
        return found.get(_together(group))
    alike = [_quantile(held, own[each]) for each in own if each.split(".")[1:] == [split, quantity]]
    return float(np.exp(np.mean(np.log(alike)))) if alike else None


def _parts(cases: Sequence[SpeedCase], held: HeldOut) -> list[tuple[str, str, int]]:
    """What every measurement is left out with: backend, what folds are made by, and the fold."""
    cards: dict[tuple[str, str, Quantity], set[str]] = {}
    keys = [(case.backend, case.work.arrangement, quantity_of(case)) for case in cases]
    for key, case in zip(keys, cases, strict=True):
        cards.setdefault(key, set()).add(card_of(case))
    return [
        (case.backend, "cards", fold)
        if len(cards[key]) >= FOLDS
        else (case.backend, "models", crc32(case.reference.encode()) % FOLDS)
        for key, case, fold in zip(keys, cases, held.folds, strict=True)
    ]


def _half_width(case: SpeedCase, held: HeldOut, index: int, known: Mapping[str, Range]) -> float:
    rates = processors(case.rig, Assumptions(), held.calibrations[index])
    return width(case.work, rates, quantity_of(case), known).fraction


def _familiar(cases: Sequence[SpeedCase], held: HeldOut, of: Sequence[int]) -> float:
    """Share whose first card's generation had been measured well on other cards."""
    bases = [processors(cases[index].rig, Assumptions(), held.calibrations[index]).cards for index in of]
    return sum(1 for cards in bases if cards and cards[0].basis == _FAMILIAR) / len(of)
