"""Logging of a serving process: one line or one JSON object per event, the same for the server's own events."""

import logging
import sys

import structlog

from service.settings import Settings
from service.shells.rest.trace import CURRENT


def _name_request(_: object, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Say of which request an event is, and of which trace."""
    trace = CURRENT.get()
    if trace is not None:
        event["request_id"] = trace.request_id
        if trace.trace_id is not None:
            event["trace_id"] = trace.trace_id
    return event


def configure_logs(settings: Settings) -> None:
    """Send structlog's and the standard library's events to stderr in the configured form."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        _name_request,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    last: list[structlog.typing.Processor] = (
        [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
        if settings.log_format == "json"
        else [
            structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback)
        ]
    )
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.log_level.upper())
    # it tells at each look at the database's revision which kind of database it is
    logging.getLogger("alembic").setLevel(logging.WARNING)
