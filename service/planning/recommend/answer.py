"""Recommendations as the contract shapes them, with the reasons."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from service.contract.plan import Plan
from service.contract.recommend import (
    Considered,
    NearMiss,
    Recommendation,
    Recommendations,
    RecommendedModel,
    RecommendRequest,
    SortKey,
)
from service.contract.request import PlanRequest
from service.core.types import Host
from service.core.units import GIB
from service.planning.compare.differences import stages
from service.planning.compare.labels import model_label
from service.planning.planner import Planner
from service.planning.recommend.builds import MIXED_KINDS, Build, chains
from service.planning.recommend.floor import Floor, floor_of, least_decode_s
from service.planning.recommend.kinds import Kind, kinds_of
from service.planning.recommend.needs import Needs, needs_of
from service.planning.recommend.search import MAX_PLANS, Found, search
from service.planning.recommend.trial import Trial

NEAR_MISSES = 3
_KEYS: dict[SortKey, str] = {
    "price": "what the cards cost, least first",
    "power_w": "the cards' board power, least first",
    "cards": "the number of cards, fewest first",
    "decode_tokens_per_s": "decode speed of each stream, fastest first",
    "decode_tokens_per_s_per_w": "decode speed of all streams per watt of board power, most first",
    "decode_tokens_per_s_per_price": "decode speed of all streams per unit of price, most first",
}


def recommend(request: RecommendRequest, planner: Planner) -> Recommendations:
    """Rigs that do what was asked, best first; the same question has the same answer.

    Raises PlanProblem: what `needs_of`, `kinds_of` and, whatever the rig, the planner refuse.
    """
    needs = needs_of(request)
    host = Host(
        ram_bytes=request.host.ram_bytes,
        ram_bandwidth_bytes_per_s=request.host.ram_bandwidth_bytes_per_s,
        cpu=request.host.cpu,
    )
    kinds, left_out = kinds_of(request, planner.catalogues.gpus, host)
    plans = _PlansAlone(planner)
    floor = floor_of(needs.questions, plans)
    mixed = _mixed(kinds, needs) if request.max_kinds > 1 else []
    found = search(needs, floor, list(chains(kinds, mixed, request.min_cards, request.max_cards)), plans)
    return Recommendations(
        context_tokens=needs.context_tokens,
        sorted_by=needs.sort_by,
        recommendations=[_recommendation(trial, needs) for trial in found.good],
        near_misses=[] if found.good else _near_misses(found.failed) or list(_unplanned(kinds, floor, needs)),
        considered=_considered(kinds, left_out, found),
        explanation=list(_explanation(needs, floor, kinds, mixed, found)),
    )


@dataclass(frozen=True, slots=True)
class _PlansAlone:
    """Plans without runners-up: rigs are compared with each other."""

    planner: Planner

    def plan(self, request: PlanRequest) -> Plan:
        """The plan; raises PlanProblem."""
        return self.planner.plan(request, alone=True)


def _mixed(kinds: Sequence[Kind], needs: Needs) -> Sequence[Kind]:
    """Kinds among which mixed rigs are looked for: where there are many, those with the most memory for the key."""

    def cost(kind: Kind) -> float:
        by = {"price": kind.price, "decode_tokens_per_s_per_price": kind.price, "cards": 1.0}.get(
            needs.sort_by, kind.power_w
        )
        return (float("inf") if by is None else by) / max(1, kind.usable_bytes)

    several = [kind for kind in kinds if kind.mixes]
    best = {kind.slug for kind in sorted(several, key=lambda kind: (cost(kind), kind.slug))[:MIXED_KINDS]}
    return [kind for kind in several if kind.slug in best]


def _recommendation(trial: Trial, needs: Needs) -> Recommendation:
    build, slowest = trial.build, _slowest(trial)
    speed, power = slowest.speed, slowest.power
    models = [_model(question, plan) for question, plan in zip(trial.questions, trial.plans, strict=True)]
    return Recommendation(
        rig=" + ".join(build.names),
        gpus=build.names,
        cards=build.cards,
        power_w=build.power_w,
        slots=build.slots,
        price=build.price,
        decode_tokens_per_s=trial.decode_tokens_per_s,
        aggregate_decode_tokens_per_s=trial.aggregate_decode_tokens_per_s,
        decode_tokens_per_s_per_w=trial.per_w,
        decode_tokens_per_s_per_price=trial.per_price,
        prefill_tokens_per_s=speed.prefill_tokens_per_s.mid if speed and speed.prefill_tokens_per_s else None,
        ttft_s=speed.ttft_s.mid if speed and speed.ttft_s else None,
        system_peak_w=power.system_peak_w if power else None,
        recommended_psu_w=power.recommended_psu_w if power else None,
        models=models,
        why=_why(trial, needs),
    )


def _slowest(trial: Trial) -> Plan:
    return min(trial.plans, key=lambda plan: plan.speed.decode_tokens_per_s.mid if plan.speed else 0.0)


def _model(question: PlanRequest, plan: Plan) -> RecommendedModel:
    speed = plan.speed
    return RecommendedModel(
        model=model_label(question.model),
        plan_id=plan.id,
        verdict=plan.verdict,
        max_context_tokens=plan.max_context_tokens,
        least_headroom_bytes=min((device.headroom_bytes for device in plan.devices), default=None),
        decode_tokens_per_s=speed.decode_tokens_per_s if speed else None,
        aggregate_decode_tokens_per_s=speed.aggregate_decode_tokens_per_s if speed else None,
        prefill_tokens_per_s=speed.prefill_tokens_per_s if speed else None,
        ttft_s=speed.ttft_s if speed else None,
        command=plan.command.text,
        warnings=[warning.code for warning in plan.warnings],
        request=question,
    )


def _why(trial: Trial, needs: Needs) -> str:
    """What the rig is made of, costs and does, in a sentence."""
    build, plan = trial.build, _slowest(trial)
    free_bytes = min(
        (device.headroom_bytes for each in trial.plans for device in each.devices if device.weights_bytes), default=0
    )
    facts = [
        f"{build.usable_bytes / GIB:.1f} GiB in all with {free_bytes / GIB:.2f} GiB free on the fullest card",
        *([f"{build.power_w:.0f} W of board power"] if build.power_w is not None else []),
        *([f"{build.price:g} for the cards"] if build.price is not None else []),
        *([f"{trial.decode_tokens_per_s:.1f} tok/s for each stream"] if trial.decode_tokens_per_s else []),
    ]
    least = needs.request.min_decode_tokens_per_s
    if least is not None and trial.decode_tokens_per_s:
        facts[-1] += f" where {least:g} are asked"
    return f"{'; '.join(facts)}: {stages(plan)}."


def _near_misses(failed: Sequence[Trial]) -> list[NearMiss]:
    """Rigs that fit and are nearest in speed, then those that lack the least memory."""

    def distance(trial: Trial) -> tuple[int, float, int]:
        lack = sum(plan.shortfall_bytes for plan in trial.plans)
        return (0 if trial.fits else 1, -(trial.decode_tokens_per_s or 0.0), lack)

    planned = sorted((trial for trial in failed if not trial.refused), key=distance) or list(failed)
    return [
        NearMiss(rig=" + ".join(trial.build.names), missing="; ".join(trial.missing)) for trial in planned[:NEAR_MISSES]
    ]


def _unplanned(kinds: Sequence[Kind], floor: Floor, needs: Needs) -> Iterator[NearMiss]:
    """Where no rig was worth planning: of those of one kind the fastest that is large enough, else the largest."""
    builds = [Build(((kind, min(kind.most, needs.request.max_cards)),)) for kind in kinds]
    enough = [build for build in builds if build.usable_bytes >= floor.held_bytes]
    if enough:
        least_s = {build: least_decode_s(build, floor, in_turn=needs.reads_in_turn) for build in enough}
        build = min(enough, key=lambda each: (least_s[each], each.names))
        if least_s[build] and needs.request.min_decode_tokens_per_s is not None:
            most = f"{1 / least_s[build]:.1f} of {needs.request.min_decode_tokens_per_s:g} tok/s"
            yield NearMiss(rig=" + ".join(build.names), missing=f"decodes at most {most}, reading at full bandwidth")
    elif builds:
        build = max(builds, key=lambda each: each.usable_bytes)
        sizes = f"{build.usable_bytes / GIB:.1f} of at least {floor.held_bytes / GIB:.1f} GiB"
        yield NearMiss(rig=" + ".join(build.names), missing=f"has {sizes}")


def _considered(kinds: Sequence[Kind], left_out: Counter[str], found: Found) -> Considered:
    counts = found.counts
    return Considered(
        kinds=len(kinds),
        kinds_left_out=dict(sorted(left_out.items())),
        rigs=counts["rigs"],
        too_small=counts["too_small"],
        over_limit=counts["over_limit"],
        too_slow=counts["too_slow"],
        planned=counts["planned"],
        refused=counts["refused"],
        unfit=counts["unfit"],
        short=counts["short"],
        not_needed=counts["not_needed"],
        not_reached=counts["not_reached"],
    )


def _explanation(
    needs: Needs, floor: Floor, kinds: Sequence[Kind], mixed: Sequence[Kind], found: Found
) -> Iterator[str]:
    counts = found.counts
    if needs.request.workload.context_tokens is None:
        streams = needs.request.workload.parallel
        taking = "one stream takes" if streams == 1 else f"{streams} streams take"
        yield f"No context was stated: {needs.context_tokens:,} tokens are what {taking} with prompt and answer."
    if len(needs.questions) > 1:
        yield "Each model has the rig to itself; speeds are those of the slowest."
    if floor.held_bytes and not needs.request.allow_host_offload:
        yield f"Weights and cache take at least {floor.held_bytes / GIB:.2f} GiB of the cards together."
    if floor.read_bytes:
        yield f"A token of one stream reads at least {floor.read_bytes / 1e9:.2f} GB, which bounds every rig's speed."
    yield (
        f"{len(kinds)} kinds of card make {counts['rigs']:,} rigs of up to {needs.request.max_cards} cards"
        + (f", mixed ones of {len(mixed)} kinds" if len(mixed) > 1 else "")
        + f"; {counts['planned']:,} were planned."
    )
    if needs.reads_in_turn and needs.request.min_decode_tokens_per_s is not None:
        yield (
            "Cards that share a model by layers read one after the other, so that more of them than hold it decode no "
            "faster; engine.split_mode tensor is searched where it is stated."
        )
    yield f"They are sorted by {_KEYS[needs.sort_by]}."
    if counts["not_reached"]:
        yield (
            f"{counts['not_reached']:,} rigs were left when {MAX_PLANS} plans had been made: fewer candidate cards, "
            "or a tighter limit, would leave none."
        )
    if not found.good:
        yield "No rig does what was asked."
