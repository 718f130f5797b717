"""Answers that were given, for as long as the facts behind them are the same.

A sheet asks for every cell of a row anew, a page for every change that is taken back: most questions of a service were
asked before.
"""

from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock
from typing import Final, Generic, TypeVar

from service.catalog.gpus import GpuCatalog
from service.catalog.models import ModelCatalog
from service.contract.engine import LlamaCppEngine
from service.contract.json_bytes import json_bytes
from service.contract.request import PlanRequest
from service.planning.catalogues import Catalogues
from service.planning.engines.engine import Answer

Question = TypeVar("Question")
Kept = TypeVar("Kept")
# a plan with its runners-up takes some 50 KiB
KEPT_ANSWERS: Final = 256


@dataclass(frozen=True, slots=True, eq=False)
class Facts:
    """What answers depend on besides their question: the cards, the models and the measurements of one moment."""

    gpus: GpuCatalog
    models: ModelCatalog
    models_revision: int
    measured: object

    @classmethod
    def of(cls, catalogues: Catalogues) -> "Facts":
        """The facts of now."""
        models = catalogues.models
        return cls(catalogues.gpus, models, models.revision, catalogues.measured)

    def are(self, others: "Facts | None") -> bool:
        """Whether two are the same: what was read anew is something else, as it would not be if nothing had changed."""
        return (
            others is not None
            and self.gpus is others.gpus
            and self.models is others.models
            and self.models_revision == others.models_revision
            and self.measured is others.measured
        )


class KeptByFacts(Generic[Question, Kept]):
    """What was answered last, by question, while the facts are the same; safe to share between threads."""

    def __init__(self, capacity: int = KEPT_ANSWERS) -> None:
        self._capacity = capacity
        self._facts: Facts | None = None
        self._answers: OrderedDict[Question, Kept] = OrderedDict()
        self._working = Lock()

    def answer(self, question: Question, facts: Facts) -> Kept | None:
        """The kept answer, None where there is none with these facts behind it."""
        with self._working:
            if not facts.are(self._facts):
                return None
            answer = self._answers.get(question)
            if answer is not None:
                self._answers.move_to_end(question)
            return answer

    def keep(self, question: Question, answer: Kept, facts: Facts) -> None:
        """Keep an answer that `facts` are behind, in place of the one used longest ago."""
        with self._working:
            if not facts.are(self._facts):
                self._answers.clear()
                self._facts = facts
            self._answers[question] = answer
            if len(self._answers) > self._capacity:
                self._answers.popitem(last=False)


class KeptAnswers(KeptByFacts[bytes, Answer]):
    """The answers used last, by question.

    Only questions whose names all belong to the catalogues are kept: a file or an address may hold something else when
    it is asked for again.
    """

    def question(self, request: PlanRequest, *, alone: bool) -> bytes | None:
        """What the answer to a request is kept under, None where it is not kept."""
        if not names_only(request):
            return None
        return json_bytes(request) if not alone else b"alone" + json_bytes(request)


def names_only(request: PlanRequest) -> bool:
    """Whether everything that a request names is in the catalogues."""
    engine = request.engine
    beside = (engine.draft, engine.mmproj) if isinstance(engine, LlamaCppEngine) else ()
    return isinstance(request.model, str) and not any(beside)
