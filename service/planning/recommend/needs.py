"""What was asked of a rig, as questions to the planner and as limits."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from service.contract.engine import LlamaCppEngine
from service.contract.plan import Plan
from service.contract.recommend import RecommendRequest, SortKey
from service.contract.request import PlanRequest, WorkloadRequest
from service.contract.rig import RigRequest
from service.core.problems import Contradiction, InvalidRequest
from service.planning.recommend.builds import Build

CONTEXT_STEP_TOKENS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """A request without gaps: one question per model, without cards, and the key to sort by."""

    request: RecommendRequest
    questions: Sequence[PlanRequest]
    sort_by: SortKey

    @property
    def context_tokens(self) -> int:
        """Context that is planned."""
        return self.questions[0].workload.context_tokens or 0

    @property
    def reads_in_turn(self) -> bool:
        """Whether cards read one after the other, as they do wherever layers are divided among them."""
        engine = self.request.engine
        return isinstance(engine, LlamaCppEngine) and engine.split_mode in (None, "none", "layer")

    @property
    def is_by_speed(self) -> bool:
        """Whether the key is known only after planning."""
        return self.sort_by.startswith("decode")

    def over_limit(self, build: Build) -> bool:
        """Whether a rig draws, takes or costs more than allowed; what is not known was left out before."""
        request = self.request
        limits = (
            (build.power_w, request.max_power_w), (build.slots, request.max_slots), (build.price, request.max_price),
        )  # fmt: skip
        return any(limit is not None and (value is None or value > limit) for value, limit in limits)

    def missing(self, plan: Plan) -> Iterator[str]:
        """What a plan lacks, in words; nothing where it does what was asked."""
        request, speed = self.request, plan.speed
        if plan.verdict == "does_not_fit" or not (plan.fits or request.allow_host_offload):
            yield "does not fit on the cards"
            return
        asked = (
            ("decodes", request.min_decode_tokens_per_s, speed.decode_tokens_per_s if speed else None),
            ("reads prompts at", request.min_prefill_tokens_per_s, speed.prefill_tokens_per_s if speed else None),
        )
        for what, least, estimate in asked:
            if least is not None and (estimate is None or estimate.mid < least):
                yield f"{what} {0 if estimate is None else estimate.mid:.1f} of {least:g} tok/s"
        ttft = speed.ttft_s if speed else None
        if request.max_ttft_s is not None and (ttft is None or ttft.mid > request.max_ttft_s):
            yield f"takes {ttft.mid if ttft else float('inf'):.2f} of {request.max_ttft_s:g} s to the first token"


def needs_of(request: RecommendRequest) -> Needs:
    """Check what was asked and fill its gaps.

    Raises InvalidRequest without a model, or with bounds that exclude each other; Contradiction where prices are needed
    and none are given.
    """
    models = request.models or ([] if request.model is None else [request.model])
    if not models or (request.models and request.model):
        raise InvalidRequest("name one model, or several as models, not both", fields=("model", "models"))
    if request.min_cards > request.max_cards:
        raise InvalidRequest("min_cards is more than max_cards", fields=("min_cards", "max_cards"))
    by_price = request.max_price is not None or "price" in (request.sort_by or "")
    if by_price and not request.prices:
        raise Contradiction(
            "what cards cost is yours to say: give prices, or leave max_price and sorting by price out",
            fields=("prices", "max_price", "sort_by"),
        )
    workload = _workload(request.workload)
    rig = RigRequest(host=request.host)
    questions = [PlanRequest(model=model, rig=rig, workload=workload, engine=request.engine) for model in models]
    return Needs(
        request=request,
        questions=questions,
        sort_by=request.sort_by or ("price" if request.prices else "power_w"),
    )


def _workload(stated: WorkloadRequest) -> WorkloadRequest:
    """The workload with the context it takes at least, where that is left out."""
    if stated.context_tokens is not None:
        return stated
    least = stated.parallel * (stated.cached_tokens + stated.prompt_tokens + stated.output_tokens)
    padded = -(-least // CONTEXT_STEP_TOKENS) * CONTEXT_STEP_TOKENS
    return stated.model_copy(update={"context_tokens": padded})
