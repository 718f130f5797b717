"""Spans, exported by OTLP over HTTP.

Where to, with which headers, how many and how large the queue is: OpenTelemetry's own variables, which its SDK reads.
Source: OpenTelemetry specification 1.52, "Environment Variable Specification"; FastAPI 0.165, "OpenTelemetry".
"""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import TYPE_CHECKING, Final

import structlog
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.semconv.attributes.http_attributes import HTTP_RESPONSE_HEADER_TEMPLATE, HTTP_ROUTE
from opentelemetry.semconv.attributes.service_attributes import SERVICE_NAME, SERVICE_VERSION
from opentelemetry.semconv.attributes.url_attributes import URL_QUERY
from opentelemetry.trace import format_trace_id, get_current_span
from sqlalchemy import Engine
from starlette.types import Scope

from service import __version__
from service.planning.observing import Observer
from service.shells.rest.trace import HEADER, Trace
from service.shells.serving.access_log import PROBED
from service.shells.serving.otlp_variables import check_variables
from service.shells.serving.plan_spans import PlanSpans
from service.shells.serving.statement_spans import StatementSpans

if TYPE_CHECKING:
    from fastapi.telemetry import TelemetryConfig

log = structlog.get_logger(__name__)

CLOSE_S: Final = 3.0
"""How long the end of the process waits for a collector to take the last spans."""
_REQUEST_ID: Final = f"{HTTP_RESPONSE_HEADER_TEMPLATE}.{HEADER.decode()}"


class OtlpTracing:
    """Tracing by OpenTelemetry's SDK. The queue is bounded (OTEL_BSP_MAX_QUEUE_SIZE): what finds no room is lost.

    The framework makes the spans of requests and continues the caller's trace; probes get none.
    """

    def __init__(self) -> None:
        """Raise Unsupported where the variables ask for something else than OTLP over HTTP."""
        check_variables()
        self._provider = TracerProvider(resource=_resource(), shutdown_on_exit=False)
        self._provider.add_span_processor(_WithoutQueries())
        self._tracer = self._provider.get_tracer("rigfit")
        self.telemetry: TelemetryConfig = {
            "tracer_provider": self._provider,
            "metrics": False,
            "logs": False,
            "operation_spans": False,
            "auto_configure": False,
            "exclude": lambda scope: scope.get("path") in PROBED,
        }

    def observer(self, inner: Observer) -> Observer:
        """One that tells another and makes a span of each plan."""
        return PlanSpans(self._tracer, inner)

    def began(self, trace: Trace) -> None:
        """Join a request and its span."""
        span = get_current_span()
        context = span.get_span_context()
        if context.is_valid:
            trace.trace_id = format_trace_id(context.trace_id)
            span.set_attribute(_REQUEST_ID, [trace.request_id])

    def answers(self, trace: Trace, scope: Scope) -> None:
        """Tell the span the address's template where the router was not asked, and what was refused."""
        span = get_current_span()
        route = getattr(scope.get("route"), "path", None)
        if route is not None and span.is_recording():
            span.set_attribute(HTTP_ROUTE, route)
            span.update_name(f"{scope['method']} {route}")
        if trace.problem is not None:
            span.set_attribute("rigfit.problem", trace.problem)

    @contextmanager
    def exporting(self, database: Engine) -> Iterator[None]:
        """Export until the end of the block, and give the collector a few seconds for what is left then."""
        exporter = OTLPSpanExporter()
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        try:
            with StatementSpans(self._tracer).of(database):
                yield
        finally:
            self._close(exporter)

    def _close(self, exporter: OTLPSpanExporter) -> None:
        closing = Thread(target=self._provider.shutdown, daemon=True)
        closing.start()
        closing.join(CLOSE_S)
        if closing.is_alive():
            log.warning("the last spans were not exported", waited_s=CLOSE_S)
            exporter.shutdown()  # type: ignore[no-untyped-call]


class _WithoutQueries(SpanProcessor):
    """Hides the values of queries, which may be what is nobody's business."""

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:  # noqa: ARG002 - as it is called
        """Say that there was a query, and nothing of it."""
        if URL_QUERY in (span.attributes or {}):
            span.set_attribute(URL_QUERY, "REDACTED")


def _resource() -> Resource:
    """This service, by the name that an operator gave it."""
    named = OTELResourceDetector().detect().attributes.get(SERVICE_NAME, "rigfit")
    return Resource.create({SERVICE_NAME: named, SERVICE_VERSION: __version__})
