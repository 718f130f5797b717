"""The outermost layer: gives every request its id, and tells metrics, log and traces of it."""

from time import perf_counter

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.shells.rest.trace import CURRENT, HEADER, Trace, request_id_of
from service.shells.serving.access_log import AccessLog
from service.shells.serving.metrics import Metrics
from service.shells.serving.tracing import Tracing

UNMATCHED = "unmatched"


class Observed:
    """ASGI application around another, which sees also what fails there."""

    def __init__(self, app: ASGIApp, metrics: Metrics, log: AccessLog | None, tracing: Tracing) -> None:
        self.app = app
        self.metrics = metrics
        self.log = log
        self.tracing = tracing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; its answer bears the id."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started_s = perf_counter()
        trace = Trace(request_id_of(scope["headers"]))
        CURRENT.set(trace)
        self.tracing.began(trace)
        status = 500

        async def marked_send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                self.tracing.answers(trace, scope)
                message["headers"] = [*message.get("headers", ()), (HEADER, trace.request_id.encode())]
            await send(message)

        try:
            await self.app(scope, receive, marked_send)
        finally:
            self._tell(scope, trace, status, perf_counter() - started_s)

    def _tell(self, scope: Scope, trace: Trace, status: int, duration_s: float) -> None:
        # the router notes which of its routes answered
        route = getattr(scope.get("route"), "path", UNMATCHED)
        self.metrics.answered(scope["method"], route, status, duration_s)
        if trace.problem is not None:
            self.metrics.refused(trace.problem)
        if self.log is not None:
            client = scope.get("client")
            self.log.write(
                method=scope["method"],
                path=(scope.get("raw_path") or scope["path"].encode()).decode("latin-1"),
                status=status,
                duration_s=duration_s,
                client=client[0] if client else None,
                request_id=trace.request_id,
                trace_id=trace.trace_id,
            )
