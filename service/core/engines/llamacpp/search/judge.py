"""How long a request takes: what candidates are ranked by."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from service.core.engines.llamacpp.companions import ALONE
from service.core.engines.llamacpp.question import Choice, Question
from service.core.engines.llamacpp.settings import LlamaCppSettings
from service.core.engines.llamacpp.speed import Speed, speed_of
from service.core.speed import Assumptions
from service.core.types import Rig

TIE_FRACTION: Final = 0.005
"""Candidates of one kind that are this close are equally good: they move the same bytes, so that errors cancel."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class CardTimes:
    """Times of one kind of card that holds everything, and what a further card costs.

    decode_s, prefill_s: that grow with what the card holds; further_s: per decode step of a card that is not the first.
    """

    decode_s: float
    prefill_s: float
    further_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """Prefill over several cards as `sum_share` times the sum of the stages and `longest_share` times the longest."""

    sum_share: float = 1.0
    longest_share: float = 0.0


def card_times(
    judge: Judge, full: LlamaCppSettings, order: Sequence[int], context_tokens: int
) -> tuple[Sequence[CardTimes], Overlap] | None:
    """Times of the cards of `order` and how their prefill overlaps, as the speed model itself says; None without one.

    Each kind of card is asked about once: everything on it alone, and, once per backend, everything on two of it.
    """
    found: dict[object, CardTimes] = {}
    further: dict[str, float] = {}
    overlap = Overlap()
    gpus = judge.question.rig.gpus
    for index, position in enumerate(order):
        gpu = gpus[position]
        if gpu in found:
            continue
        alone = judge.speed(replace(full, split_mode="none", main_gpu=index, tensor_split=None), context_tokens)
        if alone.decode is None:
            return None
        if gpu.backend not in further:
            pair = replace(
                judge, question=replace(judge.question, rig=Rig(gpus=(gpu, gpu), host=judge.question.rig.host))
            )
            both = pair.speed(replace(full, split_mode="layer", devices=None, tensor_split=None), context_tokens)
            further[gpu.backend] = max(0.0, both.decode.step_s - alone.decode.step_s) if both.decode else 0.0
            if alone.prefill_s and both.prefill_s and not overlap.longest_share:
                share = min(1.0, max(0.0, 2 * (1 - both.prefill_s / alone.prefill_s)))
                overlap = Overlap(sum_share=1 - share, longest_share=share)
        found[gpu] = CardTimes(
            decode_s=alone.decode.step_s, prefill_s=alone.prefill_s or 0.0, further_s=further[gpu.backend]
        )
    return [found[gpus[position]] for position in order], overlap
