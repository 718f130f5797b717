"""Whether a measurement can be believed: what is impossible, unsteady or contradicts an earlier one is not."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, isfinite, log, sqrt
from typing import Final

from service.contract.estimate import Estimate
from service.contract.plan import Plan
from service.core.correction_constants import OTHER_BUILD, OTHER_SOURCE, REPEATED, Quantity, deviation
from service.core.types import Gpu
from service.measurements.runs import Figure
from service.planning.measurements.standing import split_of

# figures of cards are rounded, and boost beyond them
BEYOND_FRACTION: Final = 1.03
# four-bit rates, the fastest that tensor cores have, are four times those of FP16
FASTEST_TENSOR_MULTIPLE: Final = 4.0
# slower than this share of the prediction is another fault than the prediction's: a processor in place of a card
SLOWEST_FRACTION: Final = 1 / 8
# how many standard deviations two measurements of one configuration may differ by
CONTRADICTING_DEVIATIONS: Final = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Why a measurement is not believed; an empty code for one that is."""

    code: str = ""
    reason: str = ""

    def __bool__(self) -> bool:
        return bool(self.code)


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """An accepted measurement of the same configuration; by_same: on the same machine."""

    id: str
    value: float
    stddev: float | None
    build: str
    by_same: bool


BELIEVED: Final = Verdict()
CONTRADICTS: Final = "contradicts"


def quantity_of(figure: Figure) -> Quantity:
    """Which noise a figure has."""
    if figure.metric in ("prefill_tokens_per_s", "ttft_s"):
        return "prefill"
    return "decode" if figure.parallel in (None, 1) else "batch"


def judged_alone(figure: Figure) -> Verdict:
    """What can be said of the figure without knowing what was measured.

    A spread over the repetitions beyond what strangers' results differ by says that something else ran.
    """
    if not isfinite(figure.value) or figure.value <= 0:
        return Verdict(code="not-a-rate", reason=f"The program printed {figure.value:g}, which is no speed.")
    spread = 0.0 if figure.stddev is None or not isfinite(figure.stddev) else figure.stddev / figure.value
    limit = OTHER_SOURCE[quantity_of(figure)]
    if figure.metric in ("decode_tokens_per_s", "prefill_tokens_per_s", "combined_tokens_per_s") and spread > limit:
        return Verdict(
            code="unsteady",
            reason=f"Its repetitions differ by {spread:.0%} of their mean, more than the {limit:.0%} that results of "
            "different people differ by: something else ran meanwhile.",
        )
    return BELIEVED


def judged_by_plan(figure: Figure, plan: Plan, gpus: Sequence[Gpu]) -> Verdict:
    """Whether cards like these can do it at all, and whether it is of the same kind as the prediction."""
    if plan.verdict == "does_not_fit":
        return Verdict(
            code="does-not-fit",
            reason=f"{plan.shortfall_bytes:,} bytes are missing on these cards: part of it ran from main memory.",
        )
    bound = _bandwidth_bound(figure, plan, gpus)
    if bound is not None and figure.value > bound * BEYOND_FRACTION:
        return Verdict(
            code="beyond-bandwidth",
            reason=f"{figure.value:,.1f} tokens/s need more than the cards' memory bandwidth: it allows {bound:,.1f}.",
        )
    ceiling = _compute_bound(figure, plan, gpus)
    if ceiling is not None and figure.value > ceiling:
        return Verdict(
            code="beyond-compute",
            reason=f"{figure.value:,.0f} tokens/s need more arithmetic than the cards have: it allows {ceiling:,.0f}.",
        )
    predicted = predicted_of(figure, plan)
    if predicted is not None and _speed_ratio(figure, predicted) < SLOWEST_FRACTION:
        return Verdict(
            code="implausibly-slow",
            reason=f"It is {1 / _speed_ratio(figure, predicted):.0f} times slower than predicted: something else than "
            "these cards did the work, or something slowed them down.",
        )
    return BELIEVED


def judged_by_earlier(figure: Figure, build: str, earlier: Sequence[Earlier]) -> Verdict:
    """Whether it agrees with what was measured before on the same configuration, within the noise."""
    for one in earlier:
        limit = _noise_limit(figure, build, one)
        difference = abs(log(figure.value / one.value))
        if difference > limit:
            return Verdict(
                code=CONTRADICTS,
                reason=f"{one.id} measured {one.value:,.2f} on the same configuration, {exp(difference) - 1:.1%} "
                f"apart; the noise explains {exp(limit) - 1:.1%}.",
            )
    return BELIEVED


def predicted_of(figure: Figure, plan: Plan) -> Estimate | None:
    """The plan's figure of the same metric; None where it has none."""
    if plan.speed is None or figure.metric == "combined_tokens_per_s":
        return None
    found: Estimate | None = getattr(plan.speed, figure.metric)
    return found


def _speed_ratio(figure: Figure, predicted: Estimate) -> float:
    ratio = figure.value / predicted.mid
    return 1 / ratio if figure.metric == "ttft_s" else ratio


def _noise_limit(figure: Figure, build: str, earlier: Earlier) -> float:
    """Largest difference of logarithms that noise explains: of the build, of the machine, of the repetitions."""
    table = OTHER_SOURCE if not earlier.by_same else REPEATED if build == earlier.build else OTHER_BUILD
    noise = deviation(table[quantity_of(figure)])
    spreads = ((figure.stddev or 0.0) / figure.value, (earlier.stddev or 0.0) / earlier.value)
    return CONTRADICTING_DEVIATIONS * sqrt(noise**2 + sum(spread**2 for spread in spreads if isfinite(spread)))


def _bandwidth_bound(figure: Figure, plan: Plan, gpus: Sequence[Gpu]) -> float | None:
    """Rate at which the cards read nothing but what every token needs, at their full bandwidth."""
    if figure.metric not in ("decode_tokens_per_s", "aggregate_decode_tokens_per_s"):
        return None
    times = []
    for device, gpu in zip(plan.devices, gpus, strict=False):
        if device.read_bytes_per_token and not gpu.bandwidth_bytes_per_s:
            return None
        times.append(device.read_bytes_per_token / (gpu.bandwidth_bytes_per_s or 1.0))
    together = split_of(plan) in ("row", "tensor")
    step_s = max(times, default=0.0) if together else sum(times)
    streams = plan.workload.parallel if figure.metric == "aggregate_decode_tokens_per_s" else 1
    return streams / step_s if step_s else None


def _compute_bound(figure: Figure, plan: Plan, gpus: Sequence[Gpu]) -> float | None:
    """Rate at which the cards would do nothing but the prompt's multiplications at their fastest."""
    if figure.metric != "prefill_tokens_per_s" or not gpus:
        return None
    rates = [gpu.fp16_tensor_flops or (gpu.fp32_flops and 2 * gpu.fp32_flops) for gpu in gpus]
    if not all(rates):
        return None
    flops = sum(rate for rate in rates if rate) * FASTEST_TENSOR_MULTIPLE
    return flops / (2.0 * plan.model.active_parameters)
