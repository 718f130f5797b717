"""The use case: a request's names become facts, facts go through the core, the result is shaped as the contract's."""

from collections.abc import Callable, Sequence
from pathlib import Path

from service.contract.model_reference import ModelPath, ModelReference, ModelUrl
from service.contract.plan import Plan
from service.contract.request import PlanRequest, WorkloadRequest
from service.core.engines.llamacpp.choices import choose, max_context_tokens
from service.core.engines.llamacpp.fit import fit, fitted_choice
from service.core.engines.llamacpp.speed import speed_of
from service.core.model_facts import model_facts
from service.core.model_kinds import refuse_unplanned_kind
from service.core.problems import InvalidRequest, Unsupported
from service.core.speed import Assumptions
from service.core.types import Model, Workload
from service.planning.answer import plan_of
from service.planning.catalogues import Catalogues
from service.planning.companions import beside_of
from service.planning.files import read_model_file
from service.planning.findings import Findings, is_offloaded
from service.planning.fit import refuse_unfitted_companions
from service.planning.model_hosts import RemoteModels
from service.planning.rig import rig_of
from service.planning.settings import planned_engine, settings_of


class Planner:
    """Answers questions from one pair of catalogues; safe to share between threads.

    may_read_files: whether a request may name a GGUF file of this computer. remote: gives what fetches models by
    address; None where they are not fetched.
    """

    def __init__(
        self,
        catalogues: Catalogues,
        *,
        may_read_files: bool = False,
        remote: Callable[[], RemoteModels] | None = None,
    ) -> None:
        self.catalogues = catalogues
        self._may_read_files = may_read_files
        self._remote = remote

    def has_catalogues(self) -> bool:
        """Whether there are cards and models to plan with."""
        return bool(self.catalogues.gpus.names.records) and bool(self.catalogues.models.search())

    def plan(self, request: PlanRequest) -> Plan:
        """Answer one question.

        Raises PlanProblem: a name that is unknown, a value out of range, parts that exclude each other, or what
        the engine itself would refuse. What does not fit is an answer.
        """
        return plan_of(self.findings(request))

    def findings(self, request: PlanRequest) -> Findings:
        """Everything that goes into the answer to one question; raises as `plan` does."""
        engine = planned_engine(request.engine)
        refuse_unfitted_companions(engine)
        gpus = self.catalogues.gpus
        model, notes = self._model(request.model)
        refuse_unplanned_kind(model)
        rig = rig_of(request.rig, gpus)
        workload = _workload(request.workload)
        assumptions = _assumptions(request)
        settings, beside = settings_of(engine), beside_of(engine, model, self._model)
        fitted = fit(model, rig, settings, workload) if engine.fit else None
        choice = (
            choose(model, rig, settings, workload, beside.companions)
            if fitted is None
            else fitted_choice(fitted, workload)
        )
        return Findings(
            request=request,
            notes=notes,
            companion_notes=beside.notes,
            gpus=gpus,
            choice=choice,
            facts=model_facts(model),
            max_context_tokens=max_context_tokens(choice),
            offloaded=is_offloaded(choice),
            fit=fitted,
            speed=speed_of(choice, assumptions),
            assumptions=assumptions,
        )

    def _model(self, reference: ModelReference) -> tuple[Model, Sequence[str]]:
        """The model, and what was read into its name."""
        if isinstance(reference, ModelUrl):
            if self._remote is None:
                raise Unsupported("Models are not fetched from addresses here.", fields=("model.url",))
            return self._remote().model(reference.url), ()
        if isinstance(reference, ModelPath):
            if not self._may_read_files:
                raise InvalidRequest("A path names a file only on the command line.", fields=("model.path",))
            return read_model_file(Path(reference.path)), ()
        models = self.catalogues.models
        resolved = models.resolve(reference)
        return models.model(resolved.row), resolved.notes


def _workload(stated: WorkloadRequest) -> Workload:
    return Workload(
        context_tokens=stated.context_tokens,
        parallel=stated.parallel,
        prompt_tokens=stated.prompt_tokens,
        cached_tokens=stated.cached_tokens,
        output_tokens=stated.output_tokens,
    )


def _assumptions(request: PlanRequest) -> Assumptions:
    stated = request.assumptions
    if stated is None:
        return Assumptions()
    return Assumptions(
        bandwidth_fraction=stated.bandwidth_fraction,
        fixed_s_per_device=stated.fixed_s_per_device,
        ignore_kv_reads=bool(stated.ignore_kv_reads),
    )
