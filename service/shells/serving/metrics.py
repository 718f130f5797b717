"""What the service counts, for Prometheus.

Labels have few values: addresses as templates (`/plans/{plan_id}`), kinds of problems, engines. With several workers
each writes to files of one folder, which PROMETHEUS_MULTIPROC_DIR names before this module is imported, and any of
them answers for all. Source: prometheus-client 0.26, "Multiprocess Mode".
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from service.shells.serving.metrics_folder import FOLDER_VARIABLE

_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_REQUEST_BUCKETS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_PLAN_BUCKETS_S: Final = (0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)

# when each series began would double their number
disable_created_metrics()  # type: ignore[no-untyped-call]


@dataclass(frozen=True, slots=True)
class Gauge:
    """A value as it is now; those of one name follow each other."""

    name: str
    description: str
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)


Gauges: TypeAlias = Callable[[], Iterable[Gauge]]


class Metrics:
    """Counters of one process; an Observer of its planner. Safe to share between threads."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "rigfit_http_requests", "Requests answered.", ("method", "route", "status"), registry=self._registry
        )
        self._request_s = Histogram(
            "rigfit_http_request_duration_seconds", "Time from a request's head to the end of its answer.",
            ("method", "route"), buckets=_REQUEST_BUCKETS_S, registry=self._registry,
        )  # fmt: skip
        self._problems = Counter(
            "rigfit_problems", "Requests refused, by kind of problem.", ("slug",), registry=self._registry
        )
        self._plan_s = Histogram(
            "rigfit_plan_duration_seconds", "Time to compute a plan that was not answered before.",
            ("engine",), buckets=_PLAN_BUCKETS_S, registry=self._registry,
        )  # fmt: skip
        self._kept = Counter(
            "rigfit_kept_answers", "Plans that were answered again, from memory.", ("engine",), registry=self._registry
        )
        if FOLDER_VARIABLE not in os.environ:
            ProcessCollector(registry=self._registry)
            PlatformCollector(registry=self._registry)
        # a label's lookup takes as long as its counting
        self._of_request: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}

    def answered(self, method: str, route: str, status: int, duration_s: float) -> None:
        """Count a request by its address's template; methods nobody answers count as one."""
        key = (method, route, status)
        counted = self._of_request.get(key)
        if counted is None:
            method = method if method in _METHODS else "other"
            counted = (self._requests.labels(method, route, str(status)), self._request_s.labels(method, route))
            self._of_request[key] = counted
        requests, request_s = counted
        requests.inc()
        request_s.observe(duration_s)

    def refused(self, slug: str) -> None:
        """Count a problem."""
        self._problems.labels(slug).inc()

    def planned(self, engine: str, duration_s: float, verdict: str | None) -> None:  # noqa: ARG002 - an Observer's
        """Count a plan that was computed."""
        self._plan_s.labels(engine).observe(duration_s)

    def given_again(self, engine: str) -> None:
        """Count a plan that was kept."""
        self._kept.labels(engine).inc()

    def text(self, gauges: Gauges) -> bytes:
        """Everything counted, by all workers where there are several, and gauges read now, as Prometheus reads it."""
        registry = self._registry
        if FOLDER_VARIABLE in os.environ:
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        now = CollectorRegistry()
        now.register(_Gauges(gauges))
        return generate_latest(registry) + generate_latest(now)


class _Gauges(Collector):
    """Values that are read when they are asked for."""

    def __init__(self, gauges: Gauges) -> None:
        self._gauges = gauges

    def collect(self) -> Iterator[Metric]:
        """Read them."""
        families: dict[str, GaugeMetricFamily] = {}
        for gauge in self._gauges():
            family = families.setdefault(
                gauge.name, GaugeMetricFamily(gauge.name, gauge.description, labels=tuple(gauge.labels))
            )
            family.add_metric(tuple(gauge.labels.values()), gauge.value)
        yield from families.values()
