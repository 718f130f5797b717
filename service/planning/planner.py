"""The use case: a question is answered by the planning of the engine it names."""

import time
from collections.abc import Callable

from service.contract.measurements import Calibration
from service.contract.plan import Plan
from service.contract.request import PlanRequest
from service.core.problems import UnknownGpu, UnknownModel
from service.planning.catalogues import Catalogues
from service.planning.engines import ENGINES
from service.planning.engines.engine import Answer
from service.planning.kept_answers import Facts, KeptAnswers
from service.planning.measurements.learning import Learning, MeasuredSpeeds
from service.planning.model_hosts import RemoteModels
from service.planning.observing import Observer, Unobserved
from service.planning.outages import unknown_for_now, without_database
from service.planning.presets import with_preset
from service.planning.sources import Sources
from service.planning.time_limit import check_time


class Planner:
    """Answers questions from one pair of catalogues; safe to share between threads.

    may_read_files: whether a request may name a GGUF file of this computer. remote: gives what fetches models by
    address; None where they are not fetched. observer: is told of every answer.
    """

    def __init__(
        self,
        catalogues: Catalogues,
        *,
        may_read_files: bool = False,
        remote: Callable[[], RemoteModels] | None = None,
        observer: Observer | None = None,
    ) -> None:
        self.catalogues = catalogues
        self._observer: Observer = observer or Unobserved()
        self._kept = KeptAnswers()
        self._learning = Learning(self.predicted)
        self._sources = Sources(catalogues, may_read_files=may_read_files, remote=remote)

    def has_catalogues(self) -> bool:
        """Whether there are cards and models to plan with."""
        return bool(self.catalogues.gpus.names.records) and bool(self.catalogues.models.search())

    def plan(self, request: PlanRequest, *, alone: bool = False) -> Plan:
        """Answer one question; alone: without runners-up, advice and explanation.

        Raises PlanProblem: a name that is unknown, a value out of range, parts that exclude each other, or what
        the engine itself would refuse. What does not fit is an answer.
        """
        return self.answer(request, alone=alone).plan

    def answer(self, request: PlanRequest, *, alone: bool = False) -> Answer:
        """Answer one question, with the version of the facts behind it; raises as `plan` does.

        Where something like it was measured, its speeds are shifted by that. Who asks again gets the same object.
        """
        question, facts = self._kept.question(request, alone=alone), self.facts()
        if question is None:
            return self._timed(request, alone=alone)
        answer = self._kept.answer(question, facts)
        if answer is not None:
            self._observer.given_again(request.engine.name)
            return answer
        answer = self._timed(request, alone=alone)
        self._kept.keep(question, answer, facts)
        return answer

    def _timed(self, request: PlanRequest, *, alone: bool) -> Answer:
        check_time()
        started_s, verdict = time.perf_counter(), None
        try:
            answer = self._corrected(request, alone=alone)
            verdict = answer.plan.verdict
            return answer
        finally:
            self._observer.planned(request.engine.name, time.perf_counter() - started_s, verdict)

    def _corrected(self, request: PlanRequest, *, alone: bool) -> Answer:
        request = with_preset(request)
        answer = self._answer(request, alone=alone)
        if self.catalogues.is_builtin:
            return Answer(without_database(answer.plan), answer.data_version)
        measured = self.catalogues.measured
        if measured is None:
            return answer
        return self._learning.corrections(measured, self.catalogues.gpus).corrected(request, answer)

    def facts(self) -> Facts:
        """What answers depend on now, besides their questions."""
        return Facts.of(self.catalogues)

    def given_again(self, engine: str) -> None:
        """Tell whoever counts that an answer was given by someone who kept it."""
        self._observer.given_again(engine)

    def predicted(self, request: PlanRequest) -> Plan:
        """The plan as it is without measurements; raises as `plan` does."""
        return self._answer(with_preset(request)).plan

    def calibration(self) -> Calibration:
        """What measurements move."""
        measured = self.catalogues.measured or MeasuredSpeeds(())
        return self._learning.corrections(measured, self.catalogues.gpus).calibration()

    def _answer(self, request: PlanRequest, *, alone: bool = False) -> Answer:
        try:
            return ENGINES[request.engine.name].answer(request, self._sources, alone=alone)
        except (UnknownGpu, UnknownModel) as refused:
            if self.catalogues.is_away:
                raise unknown_for_now(refused) from None
            raise
