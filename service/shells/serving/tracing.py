"""Whether spans are told of, and what the application needs for it; nothing of OpenTelemetry's SDK is imported here."""

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Protocol

from service.core.problems import Unsupported
from service.planning.observing import Observer
from service.settings import Settings
from service.shells.rest.trace import Trace

if TYPE_CHECKING:
    from fastapi.telemetry import TelemetryConfig
    from sqlalchemy import Engine
    from starlette.types import Scope


class Tracing(Protocol):
    """Spans of one process: the framework's of each request, and below it those of plans and statements."""

    telemetry: "TelemetryConfig"
    """What the framework is told: it makes the span of a request."""

    def observer(self, inner: Observer) -> Observer:
        """One that tells another and makes a span of each plan."""

    def began(self, trace: Trace) -> None:
        """Join a request and its span: the span gets the request's id, the request the trace's."""

    def answers(self, trace: Trace, scope: "Scope") -> None:
        """Tell the span what is known of the request when its answer begins."""

    def exporting(self, database: "Engine") -> AbstractContextManager[None]:
        """Export until the end of the block, statements of this database included."""


class Untraced:
    """Makes no spans, whatever the environment says of the framework's own."""

    def __init__(self) -> None:
        self.telemetry: TelemetryConfig = {"tracing": False, "metrics": False, "logs": False, "auto_configure": False}

    def observer(self, inner: Observer) -> Observer:
        """The other one."""
        return inner

    def began(self, trace: Trace) -> None:
        """Pass over it."""

    def answers(self, trace: Trace, scope: "Scope") -> None:
        """Pass over it."""

    def exporting(self, database: "Engine") -> AbstractContextManager[None]:  # noqa: ARG002 - as the others'
        """Do nothing."""
        return nullcontext()


def tracing_of(settings: Settings) -> Tracing:
    """What the settings want.

    Raises Unsupported where the packages for it are not installed, or OpenTelemetry's variables ask for what they have
    not.
    """
    if not settings.traces:
        return Untraced()
    try:
        from service.shells.serving.otlp_tracing import OtlpTracing  # noqa: PLC0415 - most installations trace nothing
    except ModuleNotFoundError as missing:
        raise Unsupported(
            f"RIGFIT_TRACES needs the packages of the extra `tracing` ({missing.name} is not installed): install "
            "requirements-tracing.txt in the place of requirements.txt, or rigfit[tracing]."
        ) from missing
    return OtlpTracing()
