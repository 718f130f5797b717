"""Runners-up of a plan: what they are called, in the order in which they would be taken."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Final

from service.core.engines.llamacpp.choices import max_context_tokens
from service.core.engines.llamacpp.search.judge import Judge
from service.core.engines.llamacpp.search.rivals import SMALLER_CACHE, Rival
from service.core.engines.llamacpp.speed import speed_of
from service.planning.findings import Findings, is_offloaded

MOST: Final = 6
_VERDICTS: Final = ("fits", "fits_with_host_offload", "does_not_fit")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerUp:
    """Another way to run the model, with everything that is known about it."""

    label: str
    rival: Rival
    findings: Findings
    request_s: float


def runners_up(findings: Findings) -> Sequence[RunnerUp]:
    """At most `MOST` of them: what fits first, then the fastest."""
    found = sorted(_runners_up(findings), key=lambda each: (_VERDICTS.index(each.findings.verdict), each.request_s))
    return found[:MOST]


def _runners_up(findings: Findings) -> Iterator[RunnerUp]:
    judge = Judge(question=findings.choice.question, assumptions=findings.assumptions)
    for rival in findings.rivals:
        found = replace(
            findings,
            choice=rival.choice,
            speed=speed_of(rival.choice, findings.assumptions),
            max_context_tokens=max_context_tokens(rival.choice),
            offloaded=is_offloaded(rival.choice),
            fit=None,
            rivals=(),
        )
        seconds = judge.seconds(found.speed)
        yield RunnerUp(
            label=label_of(rival), rival=rival, findings=found, request_s=inf if seconds is None else seconds
        )


def label_of(rival: Rival) -> str:
    """What a runner-up is, in a few words."""
    settings = rival.choice.settings
    if rival.kind == "one_card":
        card = rival.choice.placement.device_order[0]
        return f"card {card} ({rival.choice.question.rig.gpus[card].slug}) alone"
    if rival.kind == "freed":
        return f"with {' and '.join(rival.freed)} left open"
    if rival.kind == "together":
        cards = len(rival.choice.placement.device_order)
        shares = " in proportion to their bandwidth" if settings.tensor_split else ""
        return f"{cards} cards together on every layer{shares}"
    return {
        "by_free_memory": "divided by free memory, as llama.cpp does by itself",
        "by_bandwidth": "divided in proportion to bandwidth",
        "smaller_cache": f"cache in {SMALLER_CACHE}",
        "planned": "left to the planner instead of --fit",
    }[rival.kind]
