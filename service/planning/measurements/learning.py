"""Corrections that follow the measurements of a catalogue: predicted once, solved once per change."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Final

from service.catalog.gpus import GpuCatalog
from service.contract.plan import Plan
from service.contract.request import PlanRequest
from service.contract.validation import validate_request
from service.core.problems import PlanProblem
from service.planning.measurements.corrected import Corrections, Predicted

if TYPE_CHECKING:
    from service.store.measurements import StoredMeasurement

# the newest measurements that predictions learn from
MOST_MEASUREMENTS: Final = 2000


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredSpeeds:
    """The accepted measurements of a database at one moment."""

    rows: "Sequence[StoredMeasurement]"


class Learning:
    """What a planner learned so far; safe to share between threads."""

    def __init__(self, predict: Callable[[PlanRequest], Plan]) -> None:
        self._predict = predict
        self._working = Lock()
        self._predicted: dict[str, Predicted] = {}
        self._latest: tuple[MeasuredSpeeds, GpuCatalog, Corrections] | None = None

    def corrections(self, measured: MeasuredSpeeds, gpus: GpuCatalog) -> Corrections:
        """What these measurements say; each is predicted once, again only after cards changed."""
        latest = self._latest
        if latest is not None and latest[0] is measured and latest[1] is gpus:
            return latest[2]
        with self._working:
            latest = self._latest
            if latest is not None and latest[0] is measured and latest[1] is gpus:
                return latest[2]
            if latest is None or latest[1] is not gpus:
                self._predicted = {}
            self._predicted = {row.id: self._predicted.get(row.id) or self._of(row) for row in measured.rows}
            corrections = Corrections(list(self._predicted.values()))
            self._latest = (measured, gpus, corrections)
            return corrections

    def _of(self, row: "StoredMeasurement") -> Predicted:
        if row.request is None:
            return Predicted(measurement=row, request=None, plan=None, reason=row.reason)
        try:
            request = validate_request(row.request)
            return Predicted(measurement=row, request=request, plan=self._predict(request))
        except PlanProblem as refused:
            return Predicted(measurement=row, request=None, plan=None, reason=refused.detail)
