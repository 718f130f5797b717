"""What the planner asks of an engine."""

from dataclasses import dataclass
from typing import Protocol

from service.contract.plan import Plan
from service.contract.request import PlanRequest
from service.planning.sources import Sources


@dataclass(frozen=True, slots=True)
class Answer:
    """A plan, and the digest of the facts it was computed from."""

    plan: Plan
    data_version: str


class EnginePlanning(Protocol):
    """Questions about one engine; without state, so one object serves all threads."""

    def answer(self, request: PlanRequest, sources: Sources, *, alone: bool = False) -> Answer:
        """Answer one question; raises PlanProblem as `Planner.plan` does. What does not fit is an answer.

        alone: without runners-up, advice and explanation, for who reads figures alone or compares rigs himself.
        """
