"""What a worker of batches counts, and where Prometheus collects it: a port of its own."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    start_http_server,
)

from service.core.problems import InvalidRequest

_CHUNK_BUCKETS_S: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)


class WorkerMetrics:
    """Counters of one worker; the WorkObserver of its work. Safe to share between threads."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._rows = Counter(
            "rigfit_worker_rows", "Rows of batches whose answers this worker kept: plans, or problems (refused).",
            ("outcome",), registry=self._registry,
        )  # fmt: skip
        self._in_vain = Counter(
            "rigfit_worker_rows_in_vain", "Rows answered by this worker after another, or after their batch's end.",
            registry=self._registry,
        )  # fmt: skip
        self._chunk_s = Histogram(
            "rigfit_worker_chunk_duration_seconds", "Time to answer and keep rows that are kept together.",
            buckets=_CHUNK_BUCKETS_S, registry=self._registry,
        )  # fmt: skip
        self._failed = Counter(
            "rigfit_worker_batches_failed", "Batches that this worker ended with a problem.", registry=self._registry
        )
        self._planned, self._refused = self._rows.labels("planned"), self._rows.labels("refused")
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)

    def answered(self, rows: int, refused: int, duration_s: float) -> None:
        """Count a chunk whose answers are kept."""
        self._planned.inc(rows - refused)
        self._refused.inc(refused)
        self._chunk_s.observe(duration_s)

    def answered_in_vain(self, rows: int) -> None:
        """Count a chunk whose answers are not kept."""
        self._in_vain.inc(rows)

    def failed(self) -> None:
        """Count a batch that failed."""
        self._failed.inc()

    @contextmanager
    def served(self, host: str, port: int | None) -> Iterator[None]:
        """Answer Prometheus at a port, if one is given, until the end of the block; raises InvalidRequest."""
        if port is None:
            yield
            return
        try:
            server, thread = start_http_server(port, host, self._registry)
        except OSError as error:
            raise InvalidRequest(
                f"RIGFIT_WORKER_METRICS_PORT: {host}:{port} cannot be used: {error.strerror}."
            ) from None
        try:
            yield
        finally:
            server.shutdown()
            server.server_close()
            thread.join()
