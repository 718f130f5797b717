"""vLLM: a checkpoint's facts go through its rules, the result is shaped as the contract's."""

from service.contract.request import PlanRequest
from service.planning.engines.engine import Answer
from service.planning.sources import Sources


class VllmPlanning:
    """Plans of vLLM."""

    def answer(self, request: PlanRequest, sources: Sources, *, alone: bool = False) -> Answer:
        """Answer one question; raises PlanProblem. No runners-up are looked for, with or without `alone`."""
        # an eighth of what planning imports, which only these questions need
        from service.planning.engines.vllm.answer import plan_of  # noqa: PLC0415
        from service.planning.engines.vllm.findings import data_version, findings_of  # noqa: PLC0415

        found = findings_of(request, sources)
        return Answer(plan_of(found, in_words=not alone), data_version(found))
