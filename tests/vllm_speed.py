"""Publicly measured speeds of vLLM beside what plans predict."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

from service.contract.estimate import Estimate
from service.contract.plan import Plan
from service.contract.validation import validate_request
from service.core.problems import PlanProblem
from tests.planner import builtin_planner

CASES = Path(__file__).parent / "speed" / "cases.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedCase:
    """One measured figure; plan None where the question is refused, and why."""

    id: str
    request: dict[str, Any] = field(hash=False)
    metric: str
    measured: float
    plan: Plan | None = None
    refused: str = ""

    @property
    def estimate(self) -> Estimate:
        """What the plan predicts."""
        assert self.plan is not None
        estimate: Estimate = getattr(self.plan.speed, self.metric)
        return estimate

    @property
    def error(self) -> float:
        """Predicted over measured, less one."""
        return self.estimate.mid / self.measured - 1

    @property
    def counts_prompts(self) -> bool:
        """Whether the figure is of whole requests, prompts included, and not of generated tokens alone.

        Runs that start every request with a prompt of its own, which the case states as cached.
        """
        workload = self.request["workload"]
        return bool(workload["parallel"] > 1 and workload["cached_tokens"])


@cache
def speed_cases() -> tuple[SpeedCase, ...]:
    """All cases of vLLM."""
    lines = map(json.loads, CASES.read_text("utf-8").splitlines())
    return tuple(_planned(line) for line in lines if line["request"].get("engine", {}).get("name") == "vllm")


def _planned(line: dict[str, Any]) -> SpeedCase:
    case = SpeedCase(
        id=line["id"], request=line["request"], metric=line["metric"], measured=line["value"]
    )  # fmt: skip
    try:
        return replace(case, plan=builtin_planner().plan(validate_request(line["request"])))
    except PlanProblem as problem:
        return replace(case, refused=problem.detail)


def compared(metric: str, *, whole_requests: bool = False) -> list[SpeedCase]:
    """Cases of a metric that have a plan, of whole requests or of what the metric says."""
    return [
        case
        for case in speed_cases()
        if case.plan is not None and case.metric == metric and case.counts_prompts == whole_requests
    ]


def median_error(cases: Sequence[SpeedCase]) -> float:
    """Median of the absolute errors."""
    return median(abs(case.error) for case in cases)


def share_within(cases: Sequence[SpeedCase], fraction: float) -> float:
    """Share of cases whose error is no more than `fraction`."""
    return sum(abs(case.error) <= fraction for case in cases) / len(cases)
