"""How a plan's figures move when one thing moves: depth, users, context."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from service.contract.curves import Curves, DepthPoint, MemoryPoint, UsersPoint
from service.contract.engine import LlamaCppEngine
from service.contract.estimate import Estimate
from service.contract.plan import Plan
from service.contract.request import PlanRequest
from service.core.memory import CONTEXT_STEP_TOKENS
from service.core.problems import PlanProblem
from service.core.units import pad

MOST_POINTS: Final = 16
USERS: Final = (1, 2, 4, 8, 16, 32, 64, 128)
# where one stream is far from the cliff, a chart need not show what nobody asks for
_BEYOND_FACTOR: Final = 4

_CHOICES: Final[Mapping[str, Sequence[str]]] = {
    "llama.cpp": (
        "split_mode", "tensor_split", "n_gpu_layers", "flash_attn", "cache_type_k", "cache_type_v", "n_cpu_moe",
    ),
    "vllm": ("tensor_parallel_size", "pipeline_parallel_size", "pp_layer_partition"),
}  # fmt: skip
"""What a planner chose and a curve must not choose anew at every point."""

_LEFT_OPEN: Final = ("tensor_split", "n_gpu_layers", "n_cpu_moe")
"""What decides how much lies on the host."""

Answering = Callable[[PlanRequest], Plan]


def curves_of(plan_of: Answering, request: PlanRequest) -> Curves:
    """Every curve through the plan of `request`; raises PlanProblem where that plan itself is refused."""
    plan = plan_of(request)
    asked = _Asked(plan_of, _with_choices(request, plan), _offloading(request, plan))
    depths = _depths(plan)
    speeds = [(depth, found) for depth in depths if (found := asked.at_depth(depth, plan)) is not None]
    return Curves(
        plan_id=plan.id,
        model=plan.model.name,
        context_tokens=plan.workload.context_tokens or 0,
        decode=list(_decode(speeds)),
        prefill=list(_prefill(speeds)),
        users=[shared for users in USERS if (shared := asked.with_users(users, plan)) is not None],
        memory=[held for context in _contexts(plan) if (held := asked.at_context(context)) is not None],
        device_usable_bytes=[device.usable_bytes for device in plan.devices],
        fits_up_to_tokens=plan.max_context_tokens,
    )


def spaced(first: int, last: int, most: int) -> list[int]:
    """At most `most` whole numbers from `first` to `last`, spaced by equal factors; `first` at least 1."""
    if last <= first:
        return [first]
    factor = (last / first) ** (1 / (most - 1))
    return sorted({round(first * factor**step) for step in range(most)} | {first, last})[:most]


class _Asked:
    """Questions that differ from one in a single thing.

    offloading: the question with layers left open, which the planner divides over cards and host; None where the
    engine or the question leaves no such choice.
    """

    def __init__(self, plan_of: Answering, request: PlanRequest, offloading: PlanRequest | None) -> None:
        self._plan_of = plan_of
        self._request = request
        self._offloading_request = offloading

    def at_depth(self, depth_tokens: int, plan: Plan) -> Plan | None:
        """The plan of one prompt and answer behind so many tokens."""
        work = self._request.workload
        needed = pad(depth_tokens + work.prompt_tokens + work.output_tokens, CONTEXT_STEP_TOKENS)
        context = max(needed * work.parallel, plan.workload.context_tokens or 0)
        return self._answer(cached_tokens=depth_tokens, context_tokens=context)

    def with_users(self, users: int, plan: Plan) -> UsersPoint | None:
        """So many streams, each with as much context as in the plan."""
        each = max(CONTEXT_STEP_TOKENS, (plan.workload.context_tokens or 0) // plan.workload.parallel)
        found = self._answer(parallel=users, context_tokens=each * users)
        if found is None:
            return None
        return UsersPoint(
            parallel=users,
            context_tokens=each * users,
            verdict=found.verdict,
            decode_tokens_per_s=found.speed and found.speed.decode_tokens_per_s,
            aggregate_decode_tokens_per_s=found.speed and found.speed.aggregate_decode_tokens_per_s,
        )

    def at_context(self, context_tokens: int) -> MemoryPoint | None:
        """Memory at one context."""
        found = self._answer(context_tokens=context_tokens)
        if found is None:
            return None
        return MemoryPoint(
            context_tokens=context_tokens,
            verdict=found.verdict,
            device_total_bytes=[device.total_bytes for device in found.devices],
            host_total_bytes=found.host.total_bytes,
            shortfall_bytes=found.shortfall_bytes,
            decode_tokens_per_s=_decode_at(found),
            offloaded_decode_tokens_per_s=None if found.shortfall_bytes == 0 else self._offloaded(context_tokens),
        )

    def _offloaded(self, context_tokens: int) -> Estimate | None:
        """Decode with what lacks on the host as the planner would divide it, None where that was fixed or lacks too."""
        if self._offloading_request is None:
            return None
        found = self._ask(self._offloading_request, context_tokens=context_tokens)
        return found.speed.decode_tokens_per_s if found and found.speed and found.shortfall_bytes == 0 else None

    def _answer(self, **workload: int) -> Plan | None:
        """The plan of the question with another workload, None where the engine refuses it."""
        return self._ask(self._request, **workload)

    def _ask(self, request: PlanRequest, **workload: int) -> Plan | None:
        changed = request.workload.model_copy(update=workload)
        try:
            return self._plan_of(request.model_copy(update={"workload": changed}))
        except PlanProblem:
            return None


def _with_choices(request: PlanRequest, plan: Plan) -> PlanRequest:
    """The question with what was chosen for it stated."""
    chosen: dict[str, Any] = {
        field: getattr(plan.engine, field)
        for field in _CHOICES[plan.engine.name]
        if getattr(request.engine, field) is None
    }
    if plan.engine.name == "llama.cpp":
        chosen["fit"] = False
    return request.model_copy(update={"engine": request.engine.model_copy(update=chosen)})


def _offloading(request: PlanRequest, plan: Plan) -> PlanRequest | None:
    """The question with what was chosen for it, but for what lies on the host; None where that was stated."""
    engine = request.engine
    if not isinstance(engine, LlamaCppEngine) or engine.n_gpu_layers is not None or not request.rig.gpus:
        return None
    changed = {field: getattr(engine, field) for field in _LEFT_OPEN}
    fixed = _with_choices(request, plan)
    return fixed.model_copy(update={"engine": fixed.engine.model_copy(update=changed)})


def _decode_at(plan: Plan) -> Estimate | None:
    """Decode of a plan; with what spills where the cards lack memory, None where it cannot run."""
    if plan.speed is None:
        return None
    if plan.shortfall_bytes == 0:
        return plan.speed.decode_tokens_per_s
    return None if plan.speed.spill is None else plan.speed.spill.decode_tokens_per_s


def _depths(plan: Plan) -> list[int]:
    """Depths from nothing to what the largest context leaves beside prompt and answer."""
    work = plan.workload
    room = max(plan.max_context_tokens, work.context_tokens or 0) // work.parallel
    last = room - work.prompt_tokens - work.output_tokens
    return [0, *spaced(CONTEXT_STEP_TOKENS, last, MOST_POINTS - 1)] if last > CONTEXT_STEP_TOKENS else [0]


def _contexts(plan: Plan) -> list[int]:
    """Contexts up to the last that fits and one beyond it; up to the one asked for where none fits."""
    cliff, asked = plan.max_context_tokens, plan.workload.context_tokens or CONTEXT_STEP_TOKENS
    last = max(cliff, min(asked, _BEYOND_FACTOR * cliff) if cliff else asked)
    steps = spaced(1, max(1, last // CONTEXT_STEP_TOKENS), MOST_POINTS - 3)
    contexts = {step * CONTEXT_STEP_TOKENS for step in steps} | {asked}
    if cliff:
        contexts |= {cliff, cliff + CONTEXT_STEP_TOKENS}
    return sorted(contexts)


def _decode(speeds: Sequence[tuple[int, Plan]]) -> Iterator[DepthPoint]:
    for depth, plan in speeds:
        if plan.speed is not None:
            at = depth + plan.workload.prompt_tokens
            yield DepthPoint(depth_tokens=at, tokens_per_s=plan.speed.decode_tokens_per_s)


def _prefill(speeds: Sequence[tuple[int, Plan]]) -> Iterator[DepthPoint]:
    for depth, plan in speeds:
        if plan.speed is not None and plan.speed.prefill_tokens_per_s is not None:
            yield DepthPoint(depth_tokens=depth, tokens_per_s=plan.speed.prefill_tokens_per_s)
