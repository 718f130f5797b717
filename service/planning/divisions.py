"""Ways to divide layers over the cards, side by side."""

from collections.abc import Iterator, Sequence
from typing import Final

from service.core.engines.llamacpp.search.rivals import RivalKind
from service.core.units import GIB
from service.planning.alternatives import RunnerUp
from service.planning.findings import Findings

_DIVISIONS: Final[Sequence[RivalKind]] = ("by_free_memory", "by_bandwidth", "freed", "planned")


def division_steps(findings: Findings, others: Sequence[RunnerUp]) -> Iterator[str]:
    """The choice beside llama.cpp's own division, one by bandwidth, and the best one where another was stated."""
    divided = [other for other in others if other.rival.kind in _DIVISIONS]
    if not divided or findings.speed.decode is None:
        return
    known = [("as planned", findings), *((other.label, other.findings) for other in divided)]
    yield "Ways to divide the layers: " + "; ".join(f"{label} {_figures(found)}" for label, found in known) + "."
    if findings.placement.split_mode in ("layer", "none") and len(set(findings.rig.gpus)) > 1:
        yield (
            "Times of the cards add up, so that the least time fills the fastest card first: dividing by memory or by "
            "bandwidth is never faster than that."
        )


def _figures(findings: Findings) -> str:
    token_s = findings.speed.token_s
    if not token_s:
        return "without a speed"
    left = min(
        (
            (need.usable_bytes or 0) - need.total_bytes
            for need, device in zip(findings.choice.needs, findings.placement.devices, strict=False)
            if device.weights_bytes
        ),
        default=0,
    )
    rates = f"{token_s * 1e3:.1f} ms a token, {1 / token_s:.1f} tokens/s"
    return f"({_slots(findings)}) {rates}, {left / GIB:+.2f} GiB left on the fullest card"


def _slots(findings: Findings) -> str:
    """Layers of every card, the output layer among them."""
    ranges = (findings.placement.slots.range_of(card) for card in range(len(findings.rig.gpus)))
    return "/".join(str(end - first) for first, end in ranges)
