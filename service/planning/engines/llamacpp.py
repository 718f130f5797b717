"""llama.cpp: names become facts, facts go through its rules, the result is shaped as the contract's."""

from service.contract.engine import LlamaCppEngine
from service.contract.request import PlanRequest, WorkloadRequest
from service.core.engines.llamacpp.choices import choose, max_context_tokens
from service.core.engines.llamacpp.fit import fit, fitted_choice
from service.core.engines.llamacpp.search.rivals import planned, rivals_of
from service.core.engines.llamacpp.speed import speed_of
from service.core.model_facts import model_facts
from service.core.model_kinds import refuse_unplanned_kind
from service.core.speed import Assumptions
from service.core.types import Workload
from service.planning.answer import plan_of
from service.planning.companions import beside_of
from service.planning.engines.engine import Answer
from service.planning.findings import Findings, is_offloaded
from service.planning.fit import refuse_unfitted_companions
from service.planning.identity import data_version
from service.planning.rig import rig_of
from service.planning.settings import settings_of
from service.planning.sources import Sources


class LlamaCppPlanning:
    """Plans of llama.cpp."""

    def answer(self, request: PlanRequest, sources: Sources, *, alone: bool = False) -> Answer:
        """Answer one question; raises PlanProblem."""
        found = findings_of(request, sources, alone=alone)
        return Answer(plan_of(found, in_words=not alone), data_version(found))


def findings_of(request: PlanRequest, sources: Sources, *, alone: bool = False) -> Findings:
    """Everything that goes into the answer to one question about llama.cpp; raises PlanProblem.

    alone: without the choices that it is compared with.
    """
    engine = request.engine
    if not isinstance(engine, LlamaCppEngine):
        raise TypeError(f"{engine.name} is not llama.cpp")
    refuse_unfitted_companions(engine)
    gpus = sources.catalogues.gpus
    model, notes = sources.model(request.model)
    refuse_unplanned_kind(model)
    rig = rig_of(request.rig, gpus)
    workload = workload_of(request.workload)
    assumptions = assumptions_of(request)
    settings, beside = settings_of(engine), beside_of(engine, model, sources.model)
    fitted = fit(model, rig, settings, workload) if engine.fit else None
    choice = (
        choose(model, rig, settings, workload, beside.companions, assumptions)
        if fitted is None
        else fitted_choice(fitted, workload)
    )  # fmt: skip
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
        rivals=()
        if alone
        else (
            rivals_of(choice, settings, workload, assumptions)
            if fitted is None
            else planned(choice, settings, assumptions)
        ),
    )


def workload_of(stated: WorkloadRequest) -> Workload:
    """The workload of a request as the core has it."""
    return Workload(
        context_tokens=stated.context_tokens,
        parallel=stated.parallel,
        prompt_tokens=stated.prompt_tokens,
        cached_tokens=stated.cached_tokens,
        output_tokens=stated.output_tokens,
    )


def assumptions_of(request: PlanRequest) -> Assumptions:
    """What-if constants of a request as the core has them."""
    stated = request.assumptions
    if stated is None:
        return Assumptions()
    return Assumptions(
        bandwidth_fraction=stated.bandwidth_fraction,
        fixed_s_per_device=stated.fixed_s_per_device,
        ignore_kv_reads=bool(stated.ignore_kv_reads),
    )
