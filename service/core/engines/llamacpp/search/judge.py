"""How long a request takes: what candidates are ranked by.

Source: the speed study on noise between runs (domain notes on speed); what a request is: the workload of the
contract, whose streams each have a prompt of their own.
"""

from dataclasses import dataclass, replace
from typing import Final

from service.core.engines.llamacpp.companions import ALONE
from service.core.engines.llamacpp.question import Choice, Question
from service.core.engines.llamacpp.settings import LlamaCppSettings
from service.core.engines.llamacpp.speed import Speed, speed_of
from service.core.speed import Assumptions

TIE_FRACTION: Final = 0.004
"""Ways that are this close are equally good: they move the same bytes, so that the speed model's errors cancel."""

SAME_FRACTION: Final = 0.001
"""Ways that are not faster by this much than a known one are not looked at any further."""

LEAST_GAIN: Final = 1.03
"""What is not faster by this much, the noise between two runs of one build (speed study: 2.8 %), is no gain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """Times of candidates for one workload, from placements without compute buffers."""

    question: Question
    assumptions: Assumptions

    @property
    def bare(self) -> Question:
        """The question without what runs beside the model, whose gain in speed is not known."""
        return self.question if self.question.companions == ALONE else replace(self.question, companions=ALONE)

    def speed(self, settings: LlamaCppSettings, context_tokens: int, *, pipelined: bool = True) -> Speed:
        """Reads and times of a candidate, whether it fits or not."""
        choice = self.bare.placed(settings, context_tokens, may_pipeline=pipelined, with_compute=False)
        return speed_of(choice, self.assumptions)

    def request_s(self, settings: LlamaCppSettings, context_tokens: int, *, pipelined: bool = True) -> float | None:
        """Time of a request on every stream: all prompts, then the answers together; None without a bandwidth."""
        return self.seconds(self.speed(settings, context_tokens, pipelined=pipelined))

    def seconds_of(self, choice: Choice) -> float | None:
        """The same of a choice."""
        return self.request_s(
            choice.settings, choice.context_tokens, pipelined=choice.placement.pipeline_parallel
        )  # fmt: skip

    def seconds(self, speed: Speed) -> float | None:
        """The same from known times."""
        if speed.decode is None:
            return None
        workload = self.question.workload
        prefill_s = workload.parallel * (speed.prefill_s or 0.0)
        return prefill_s + workload.output_tokens * speed.decode.step_s
