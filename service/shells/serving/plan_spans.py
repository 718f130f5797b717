"""A span for each plan that is computed."""

from opentelemetry.trace import Tracer, get_current_span

from service.planning.observing import Observer
from service.shells.serving.child_spans import add_span


class PlanSpans:
    """An Observer that tells another and makes spans; safe to share between threads."""

    def __init__(self, tracer: Tracer, inner: Observer) -> None:
        self._tracer = tracer
        self._inner = inner

    def planned(self, engine: str, duration_s: float, verdict: str | None) -> None:
        """Add the span `plan`, with its engine and verdict; one that was refused has no verdict."""
        self._inner.planned(engine, duration_s, verdict)
        said = {"rigfit.engine": engine} | ({} if verdict is None else {"rigfit.verdict": verdict})
        add_span(self._tracer, "plan", duration_s=duration_s, attributes=said)

    def given_again(self, engine: str) -> None:
        """Tell the request's span that nothing was computed."""
        self._inner.given_again(engine)
        get_current_span().set_attribute("rigfit.kept_answer", value=True)
