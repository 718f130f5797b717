"""Plans whose speeds are shifted by what was measured, and what was measured shifts."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import Final, Protocol

from service.contract.estimate import Estimate
from service.contract.measurements import (
    Calibration,
    CalibrationGroup,
    CalibrationShift,
    SpeedCorrection,
    UnusedMeasurement,
)
from service.contract.plan import Plan
from service.contract.request import PlanRequest
from service.contract.speed import BreakdownStep, SpeedPlan
from service.core.correction_constants import OTHER_BUILD, REPEATED, Quantity, deviation
from service.core.corrections import Correction, Evidence, Observation, Shift, correction, evidence_of, shifts_of
from service.planning.engines.engine import Answer
from service.planning.hardware.power import at_rate
from service.planning.measurements.standing import Configured, configured, decode_quantity, standing_of

QUANTITY_METRICS: Final = ("decode_tokens_per_s", "aggregate_decode_tokens_per_s", "prefill_tokens_per_s")
# solving takes the cube of it: a tenth of a second
MOST_OF_A_GROUP: Final = 500
_REMEMBERED: Final = 4096
_ID_CHARACTERS: Final = 32


class Measured(Protocol):
    """An accepted measurement that answers a question."""

    @property
    def id(self) -> str:
        """Its id."""

    @property
    def metric(self) -> str:
        """What it is of."""

    @property
    def value(self) -> float | None:
        """The figure."""

    @property
    def stddev(self) -> float | None:
        """Its standard deviation over repetitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicted:
    """A measurement beside the plan that predicts it without any measurement; a reason in place of a plan."""

    measurement: Measured
    request: PlanRequest | None
    plan: Plan | None
    reason: str = ""


class Corrections:
    """What a set of measurements, the newest first, says; immutable, safe to share between threads."""

    def __init__(self, predicted: Sequence[Predicted]) -> None:
        by_group: dict[str, list[Observation]] = {}
        unused: list[UnusedMeasurement] = []
        for one in predicted:
            found = _observation(one)
            if isinstance(found, str):
                unused.append(UnusedMeasurement(id=one.measurement.id, reason=found))
            else:
                by_group.setdefault(found.standing.group, []).append(found)
        unused += [
            UnusedMeasurement(id=one.id, reason=f"There are {MOST_OF_A_GROUP} newer ones of its kind.")
            for found in by_group.values()
            for one in found[MOST_OF_A_GROUP:]
        ]
        by_group = {group: found[:MOST_OF_A_GROUP] for group, found in by_group.items()}
        self._observations: Mapping[str, Sequence[Observation]] = by_group
        self._evidence: dict[str, Evidence] = {}
        self._unused = unused
        self._remembered: dict[str, tuple[Correction | None, Correction | None]] = {}

    def corrected(self, request: PlanRequest, answer: Answer) -> Answer:
        """The answer as measurements shift it, under an id of its own; as it was where none says anything."""
        plan = answer.plan
        if plan.speed is None or request.assumptions is not None:
            # what-if figures are the caller's own
            return answer
        decode, prefill = self._told(request, plan, plan.speed)
        if decode is None and prefill is None:
            return answer
        speed = _corrected_speed(plan, plan.speed, decode, prefill)
        rate, tariff = speed.aggregate_decode_tokens_per_s, request.rig.circuit.tariff_per_kwh
        version = _version(answer.data_version, decode, prefill)
        corrected = plan.model_copy(
            update={
                "id": _corrected_id(plan.id, version),
                "speed": speed,
                "power": None if plan.power is None else at_rate(plan.power, rate, tariff),
                "explanation": [*plan.explanation, *map(_sentence, speed.corrections)],
            }
        )
        return Answer(corrected, version)

    def _told(self, request: PlanRequest, plan: Plan, speed: SpeedPlan) -> tuple[Correction | None, Correction | None]:
        """What the measurements say of decode and prefill, remembered by the plan's id, which stands for both."""
        told = self._remembered.get(plan.id)
        if told is None:
            found = configured(request, plan)
            rate = speed.prefill_tokens_per_s
            told = (
                self._of(found, decode_quantity(found.parallel), speed.decode_tokens_per_s),
                None if rate is None else self._of(found, "prefill", rate),
            )
            if len(self._remembered) >= _REMEMBERED:
                self._remembered.clear()
            self._remembered[plan.id] = told
        return told

    def calibration(self) -> Calibration:
        """Everything that was learned, by group and place."""
        groups = [self._group(name) for name in sorted(self._observations)]
        ids = sorted(one.id for group in self._observations.values() for one in group)
        return Calibration(
            version=hashlib.sha256("\n".join(ids).encode()).hexdigest()[:_ID_CHARACTERS],
            count=len(ids),
            groups=groups,
            unused=self._unused,
        )

    def _evidence_of(self, group: str) -> Evidence | None:
        observations = self._observations.get(group)
        if observations is None:
            return None
        if group not in self._evidence:
            self._evidence[group] = evidence_of(observations)
        return self._evidence[group]

    def _of(self, found: Configured, quantity: Quantity, estimate: Estimate) -> Correction | None:
        evidence = self._evidence_of(f"{found.group} {quantity}")
        if evidence is None or estimate.low <= 0:
            return None
        noise = deviation(OTHER_BUILD[quantity]) ** 2
        return correction(evidence, standing_of(found, quantity, estimate), noise_variance=noise)

    def _group(self, name: str) -> CalibrationGroup:
        evidence = self._evidence_of(name)
        shifts = () if evidence is None else shifts_of(evidence)
        return CalibrationGroup(
            group=name,
            count=len(self._observations[name]),
            shifts=sorted(map(_shift_document, shifts), key=lambda shift: -shift.count),
        )


def _observation(one: Predicted) -> Observation | str:
    """What a measurement says of its prediction, or why it says nothing."""
    measurement = one.measurement
    if one.plan is None or one.request is None:
        return one.reason
    if measurement.metric not in QUANTITY_METRICS:
        return "When the first token comes depends on how requests wait for each other, which is not predicted."
    if one.plan.speed is None or not measurement.value:
        return "There is no prediction to compare it with: a card's bandwidth is not known."
    estimate: Estimate | None = getattr(one.plan.speed, measurement.metric)
    if estimate is None or estimate.low <= 0:
        return "There is no prediction of this figure to compare it with."
    parallel = one.plan.workload.parallel
    quantity = "prefill" if measurement.metric == "prefill_tokens_per_s" else decode_quantity(parallel)
    spread = (measurement.stddev or 0.0) / measurement.value
    return Observation(
        id=measurement.id,
        standing=standing_of(configured(one.request, one.plan), quantity, estimate),
        log_ratio=log(measurement.value / estimate.mid),
        noise_variance=deviation(REPEATED[quantity]) ** 2 + spread**2,
    )


def _corrected_speed(plan: Plan, speed: SpeedPlan, decode: Correction | None, prefill: Correction | None) -> SpeedPlan:
    """Every figure shifted; the first token is late by its prompt and one decode step."""
    changes: dict[str, object] = {}
    corrections = []
    if decode is not None:
        step_s = 1 / (speed.decode_tokens_per_s.mid * decode.factor) - 1 / speed.decode_tokens_per_s.mid
        added = BreakdownStep(what=f"correction by {_count(decode)} measurements", s=step_s)
        changes |= {
            "decode_tokens_per_s": _shifted(speed.decode_tokens_per_s, decode),
            "aggregate_decode_tokens_per_s": _shifted(speed.aggregate_decode_tokens_per_s, decode),
            "breakdown": [*speed.breakdown, added],
        }
        corrections.append(_correction_document("decode_tokens_per_s", speed.decode_tokens_per_s, decode))
        if _is_measured(decode):
            changes["basis"] = "measured"
    if prefill is not None and speed.prefill_tokens_per_s is not None:
        changes["prefill_tokens_per_s"] = _shifted(speed.prefill_tokens_per_s, prefill)
        corrections.append(_correction_document("prefill_tokens_per_s", speed.prefill_tokens_per_s, prefill))
    if speed.ttft_s is not None and speed.prefill_tokens_per_s is not None:
        changes["ttft_s"] = _first_token(plan, speed, decode, prefill)
    return speed.model_copy(update={**changes, "corrections": corrections})


def _shifted(estimate: Estimate, told: Correction) -> Estimate:
    mid, width = estimate.mid * told.factor, told.width_fraction
    return Estimate(
        low=mid * (estimate.low / estimate.mid) ** width, mid=mid, high=mid * (estimate.high / estimate.mid) ** width
    )


def _first_token(plan: Plan, speed: SpeedPlan, decode: Correction | None, prefill: Correction | None) -> Estimate:
    before, rate = speed.ttft_s, speed.prefill_tokens_per_s
    if before is None or rate is None:
        raise ValueError("there is no first token to shift")
    prompt_s = min(before.mid, plan.workload.prompt_tokens / rate.mid)
    step_s = before.mid - prompt_s
    mid = prompt_s / (prefill.factor if prefill else 1.0) + step_s / (decode.factor if decode else 1.0)
    width = prefill.width_fraction if prefill else 1.0
    return Estimate(
        low=mid * (before.low / before.mid) ** width, mid=mid, high=mid * (before.high / before.mid) ** width
    )


def _is_measured(told: Correction) -> bool:
    """Whether the very configuration was measured."""
    return any(shift.place[0] == "configuration" for shift in told.shifts)


def _count(told: Correction) -> int:
    return len({one for shift in told.shifts for one in shift.ids})


def _correction_document(metric: str, before: Estimate, told: Correction) -> SpeedCorrection:
    return SpeedCorrection(
        metric=metric, modelled=before.mid, factor=told.factor, shifts=[_shift_document(one) for one in told.shifts]
    )


def _shift_document(shift: Shift) -> CalibrationShift:
    level, what = shift.place
    return CalibrationShift(
        level=level, what=what, factor=shift.factor, count=len(shift.ids), measurements=list(shift.ids)
    )


def _sentence(told: SpeedCorrection) -> str:
    what = "Decode" if told.metric.startswith("decode") else "Prefill"
    parts = "; ".join(f"{shift.level} {shift.factor:.3f} from {shift.count}" for shift in told.shifts)
    return f"{what} is multiplied by {told.factor:.3f}, as measurements say: {parts}."


def _version(facts: str, *told: Correction | None) -> str:
    """Digest of the facts behind a prediction and of the measurements that shift it."""
    used = [[(shift.place, shift.ids) for shift in one.shifts] if one else [] for one in told]
    return hashlib.sha256(repr((facts, used)).encode()).hexdigest()


def _corrected_id(plan_id: str, version: str) -> str:
    """The same question under the same measurements has the same id."""
    digest = hashlib.sha256(f"{plan_id} {version}".encode()).hexdigest()
    return f"{plan_id.partition('_')[0]}_{digest[:_ID_CHARACTERS]}"
