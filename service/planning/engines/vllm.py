"""vLLM."""

from service.contract.engine import ENGINE_NAMES
from service.contract.request import PlanRequest
from service.core.problems import Unsupported
from service.planning.engines.engine import Answer
from service.planning.sources import Sources


class VllmPlanning:
    """Plans of vLLM."""

    def answer(self, request: PlanRequest, sources: Sources) -> Answer:  # noqa: ARG002
        """Answer one question; raises PlanProblem."""
        raise Unsupported(
            "Plans for vllm are not made here yet: ask for engine.name llama.cpp.",
            suggestions=[name for name in ENGINE_NAMES if name != request.engine.name],
            fields=("engine.name",),
        )
