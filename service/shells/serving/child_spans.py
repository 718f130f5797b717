"""Spans of what was done for a request, added when it is over."""

import time
from collections.abc import Mapping
from typing import Final

from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, get_current_span
from opentelemetry.util.types import AttributeValue

from service.shells.rest.trace import CURRENT

MOST_SPANS: Final = 100
"""Of one request: a recommendation computes thousands of plans, which would leave no room for other requests."""


def add_span(
    tracer: Tracer,
    name: str,
    *,
    duration_s: float,
    attributes: Mapping[str, AttributeValue],
    kind: SpanKind = SpanKind.INTERNAL,
    has_failed: bool = False,
) -> None:
    """Add a span that ends now below that of the request under way, unless that has `MOST_SPANS` already."""
    trace = CURRENT.get()
    if trace is None or not get_current_span().is_recording():
        return
    trace.spans += 1
    if trace.spans > MOST_SPANS:
        return
    ended_ns = time.time_ns()
    span: Span = tracer.start_span(
        name, kind=kind, attributes=dict(attributes), start_time=ended_ns - round(duration_s * 1e9)
    )
    if has_failed:
        span.set_status(Status(StatusCode.ERROR))
    span.end(ended_ns)
