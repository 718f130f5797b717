"""What a user's own measurements are worth: three of a card's public figures predict its other models."""

import json
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from statistics import fmean, median
from typing import Any

from service.contract.request import PlanRequest
from service.contract.validation import validate_request
from service.core.problems import PlanProblem
from service.planning.engines.engine import Answer
from service.planning.measurements.corrected import Corrections, Predicted
from tests.planner import builtin_planner
from tests.speed_cases import dated

CASES = Path(__file__).parent / "speed" / "cases.jsonl"
MEASURED = 3
LEAST_MODELS = MEASURED + 1
TRIALS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A public figure with the plan that predicts it; it is a measurement as `Corrections` takes them."""

    id: str
    metric: str
    value: float
    request: PlanRequest
    answer: Answer
    stddev: float | None = None

    @property
    def card(self) -> str:
        """Backend, way of sharing, and cards."""
        plan = self.answer.plan
        return f"{plan.devices[0].backend} {'+'.join(sorted({device.gpu for device in plan.devices}))}"

    def error(self, answer: Answer) -> float:
        """|predicted / measured - 1|."""
        assert answer.plan.speed is not None
        return float(abs(getattr(answer.plan.speed, self.metric).mid / self.value - 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """Errors of a card's other models before and after three measurements."""

    card: str
    n: int
    mean_before: float
    mean_after: float
    median_before: float
    median_after: float


@cache
def cases(backend: str, metric: str = "decode_tokens_per_s") -> Sequence[Case]:
    """The public figures of one backend on cards that read one after the other."""
    return tuple(_cases(backend, metric))


def _cases(backend: str, metric: str) -> Iterator[Case]:
    for line in CASES.read_text("utf-8").splitlines():
        case = json.loads(line)
        groups = {f"llama.cpp/{backend}/{way}" for way in ("one", "layer")}
        if case["group"] in groups and case["metric"] == metric and case["request"]["workload"]["parallel"] == 1:
            found = _case(case)
            if found is not None:
                yield found


def _case(case: Mapping[str, Any]) -> Case | None:
    request = validate_request(dated(case["request"], day=case["date"]))
    try:
        answer = builtin_planner().answer(request)
    except PlanProblem:
        return None
    if answer.plan.speed is None or getattr(answer.plan.speed, case["metric"]) is None:
        return None
    return Case(id=case["id"], metric=case["metric"], value=case["value"], request=request, answer=answer)


def gains(backend: str, metric: str = "decode_tokens_per_s", *, speed_factor: float = 1.0) -> Iterator[Gain]:
    """One row for each card with enough models, over fixed random choices of what the user measured.

    speed_factor: of cards that are unlike those the constants come from.
    """
    by_card: dict[str, list[Case]] = defaultdict(list)
    for case in cases(backend, metric):
        by_card[case.card].append(replace(case, value=case.value * speed_factor))
    for card, found in sorted(by_card.items()):
        models = sorted({str(case.request.model) for case in found})
        if len(models) >= LEAST_MODELS:
            yield _gain(card, found, models)


def _gain(card: str, found: Sequence[Case], models: Sequence[str]) -> Gain:
    chance = random.Random(card)  # noqa: S311 - the same choices in every run
    before: list[float] = []
    after: list[float] = []
    for _ in range(TRIALS):
        chosen = chance.sample(models, MEASURED)
        own = [chance.choice([case for case in found if case.request.model == model]) for model in chosen]
        corrections = Corrections(
            [Predicted(measurement=case, request=case.request, plan=case.answer.plan) for case in own]
        )
        for case in found:
            if case.request.model not in chosen:
                before.append(case.error(case.answer))
                after.append(case.error(corrections.corrected(case.request, case.answer)))
    return Gain(
        card=card,
        n=len(before),
        mean_before=fmean(before),
        mean_after=fmean(after),
        median_before=median(before),
        median_after=median(after),
    )


def pooled(found: Sequence[Gain]) -> tuple[float, float]:
    """Mean errors before and after over all cards."""
    n = sum(gain.n for gain in found)
    return sum(gain.n * gain.mean_before for gain in found) / n, sum(gain.n * gain.mean_after for gain in found) / n
