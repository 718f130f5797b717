"""A collector of spans: a real HTTP server that takes what OTLP exporters send."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

PATIENCE_S = 20.0


@dataclass(slots=True)
class Collector:
    """What came so far, in its bytes and read."""

    address: str
    bodies: list[bytes] = field(default_factory=list)

    def spans(self) -> list[Span]:
        """All spans, in the order in which they came."""
        return [
            span
            for body in self.bodies
            for of_process in ExportTraceServiceRequest.FromString(body).resource_spans
            for of_library in of_process.scope_spans
            for span in of_library.spans
        ]

    def resource(self) -> dict[str, Any]:
        """What the spans say of the process that they come from."""
        first = ExportTraceServiceRequest.FromString(self.bodies[0]).resource_spans[0]
        return {one.key: value_of(one.value) for one in first.resource.attributes}

    def trace(self, trace_id: str, count: int) -> dict[str, list[Span]]:
        """Spans of a trace by name, once there are so many; raises TimeoutError where there never are."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            found = [span for span in self.spans() if span.trace_id.hex() == trace_id]
            if len(found) >= count:
                return {name: [one for one in found if one.name == name] for name in {one.name for one in found}}
            time.sleep(0.05)
        raise TimeoutError(f"of {trace_id} there came {[span.name for span in self.spans()]}")


def attributes_of(span: Span) -> dict[str, Any]:
    """Attributes of a span."""
    return {one.key: value_of(one.value) for one in span.attributes}


def value_of(value: AnyValue) -> Any:
    """A value as Python has it."""
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [value_of(one) for one in value.array_value.values]
    return None if kind is None else getattr(value, kind)


@contextmanager
def collecting() -> Iterator[Collector]:
    """Take spans on a free port until the end of the block."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            is_right = self.path == "/v1/traces" and self.headers["content-type"] == "application/x-protobuf"
            if is_right:
                collector.bodies.append(body)
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(200 if is_right else 404)
            self.send_header("content-type", "application/x-protobuf")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        collector = Collector(f"http://127.0.0.1:{server.server_address[1]}")
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield collector
        finally:
            server.shutdown()
