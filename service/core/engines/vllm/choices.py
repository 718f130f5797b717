"""The deployment that a question gets: every shape weighed, the one that fits and is fastest taken."""

from dataclasses import dataclass, replace

from service.core.engines.vllm.capacity import Capacity
from service.core.engines.vllm.defaults import BatchSizes
from service.core.engines.vllm.deployment import Deployment
from service.core.engines.vllm.layouts import Shape, shapes
from service.core.engines.vllm.question import VllmQuestion
from service.core.engines.vllm.speed import VllmSpeed, speed_of
from service.core.speed import Assumptions

# sequences that a step is cut down to where the default leaves no room
_FRUGAL_SEQUENCES = 16
# slower by no more than this and with fewer cards counts as equally fast
_NO_GAIN = 1.03


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmChoice:
    """A deployment with its context and capacity.

    request_tokens: max_model_len. context_tokens: of all streams together. longest_tokens: the longest request of which
    all streams fit. needed_blocks: of one replica for the streams asked for. lowered: batch sizes were cut to fit.
    """

    question: VllmQuestion
    deployment: Deployment
    capacity: Capacity
    request_tokens: int
    longest_tokens: int
    needed_blocks: int
    speed: VllmSpeed | None
    lowered: bool = False

    @property
    def context_tokens(self) -> int:
        """Context of all streams together."""
        return self.question.workload.context_tokens or self.request_tokens * self.question.streams

    @property
    def fits(self) -> bool:
        """Whether vLLM starts and holds every stream at once."""
        ranks = self.deployment.ranks
        free = all(rank.requested_bytes <= self.deployment.gpus[rank.card].usable_bytes for rank in ranks)
        room = all(rank.available_bytes > 0 for rank in ranks)
        return free and room and self.capacity.holds_request and self.needed_blocks <= self.capacity.blocks - 1


def choose(question: VllmQuestion, assumptions: Assumptions) -> list[VllmChoice]:
    """Ways to answer a question, the best first, or the least bad where nothing fits.

    Raises PlanProblem for what vLLM refuses.
    """
    question.refuse()
    return sorted(candidates(question, assumptions), key=_worth, reverse=True)


def candidates(question: VllmQuestion, assumptions: Assumptions) -> list[VllmChoice]:
    """One choice for every shape."""
    found = shapes(question.model, question.rig.gpus, question.settings, question.streams)
    return [_of_shape(question, shape, assumptions) for shape in found]


def _of_shape(question: VllmQuestion, shape: Shape, assumptions: Assumptions) -> VllmChoice:
    """A shape with vLLM's own batch sizes, or with smaller ones where only those fit and the request left them open."""
    length = question.settings.max_model_len or question.stated_request_tokens or question.most_request_tokens
    batch = question.batch(length)
    choice = _choice(question, shape, batch, assumptions)
    if choice.fits or question.settings.max_num_seqs is not None:
        return choice
    fewer = max(question.streams, _FRUGAL_SEQUENCES)
    if fewer >= batch.max_num_seqs:
        return choice
    frugal = replace(batch, max_num_seqs=fewer)
    if question.settings.max_num_batched_tokens is None:
        frugal = replace(frugal, max_num_batched_tokens=min(batch.max_num_batched_tokens, 2048))
    other = replace(_choice(question, shape, frugal, assumptions), lowered=True)
    return other if other.fits else choice


def _choice(question: VllmQuestion, shape: Shape, batch: BatchSizes, assumptions: Assumptions) -> VllmChoice:
    stated = question.settings.max_model_len or question.stated_request_tokens
    deployment = question.deployment(shape, batch, stated)
    streams = -(-question.streams // shape.data_parallel)
    longest = deployment.longest_request_tokens(question.most_request_tokens, streams)
    request = stated or longest or 1
    asked = question.stated_request_tokens or request
    capacity = deployment.capacity(request)
    return VllmChoice(
        question=question,
        deployment=deployment,
        capacity=capacity,
        request_tokens=request,
        longest_tokens=longest,
        needed_blocks=streams * deployment.cache.request_blocks(asked, deployment.cache_rules),
        speed=speed_of(deployment, question.rig, question.workload, assumptions),
    )


def _worth(choice: VllmChoice) -> tuple[bool, float, int, int]:
    """What fits first; then the fastest, or where nothing fits the least short; then the longest; then fewer cards."""
    if not choice.fits:
        return False, -float(short_bytes(choice)), choice.capacity.blocks, 0
    speed = choice.speed
    rate = 0.0 if speed is None else round_rate(choice.question.streams / speed.step_s)
    open_context = choice.question.workload.context_tokens is None
    length = choice.longest_tokens if open_context else 0
    return True, rate, length, -len(choice.deployment.layout.cards)


def round_rate(tokens_per_s: float) -> float:
    """A rate in steps of what counts as a gain, so that no card is added for less."""
    steps = 0
    while tokens_per_s >= _NO_GAIN:
        tokens_per_s /= _NO_GAIN
        steps += 1
    return float(steps)


def short_bytes(choice: VllmChoice) -> int:
    """Bytes missing over all ranks for one request of max_model_len and all streams asked for."""
    blocks = max(choice.needed_blocks, choice.capacity.request_blocks) + 1
    return sum(max(0, blocks * rank.block_bytes - rank.available_bytes) for rank in choice.deployment.ranks)
