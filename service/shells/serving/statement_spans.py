"""A span for each statement that a request sends to the database.

Not opentelemetry-instrumentation-sqlalchemy: 0.66b2 refuses SQLAlchemy 2.1, and this takes two of its events.
Source: OpenTelemetry semantic conventions 1.44, "Semantic conventions for database client spans".
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from opentelemetry.semconv.attributes.db_attributes import (
    DB_OPERATION_NAME,
    DB_QUERY_TEXT,
    DB_SYSTEM_NAME,
)
from opentelemetry.semconv.attributes.error_attributes import ERROR_TYPE
from opentelemetry.trace import SpanKind, Tracer
from sqlalchemy import Connection, Engine, event
from sqlalchemy.engine import ExceptionContext

from service.shells.serving.child_spans import add_span

_STARTED: Final = "rigfit.statement_started_s"
_LONGEST_TEXT: Final = 1000


class StatementSpans:
    """Hears of a database's statements; their text has places for values, never the values."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    @contextmanager
    def of(self, database: Engine) -> Iterator[None]:
        """Add spans until the end of the block."""
        heard = (
            ("before_cursor_execute", self._begins),
            ("after_cursor_execute", self._ended),
            ("handle_error", self._failed),
        )
        for name, hear in heard:
            event.listen(database, name, hear)
        try:
            yield
        finally:
            for name, hear in heard:
                event.remove(database, name, hear)

    def _begins(self, connection: Connection, *_: object) -> None:
        connection.info[_STARTED] = time.perf_counter()

    def _ended(self, connection: Connection, _cursor: object, statement: str, *_: object) -> None:
        self._add(connection, connection.dialect.name, statement, None)

    def _failed(self, failure: ExceptionContext) -> None:
        if failure.statement is not None and failure.connection is not None:
            error = type(failure.original_exception)
            self._add(failure.connection, failure.dialect.name, failure.statement, error)

    def _add(self, connection: Connection, dialect: str, statement: str, error: type[BaseException] | None) -> None:
        started_s = connection.info.pop(_STARTED, None)
        if started_s is None:
            return
        operation = statement.split(maxsplit=1)[0].upper()
        attributes: dict[str, Any] = {
            DB_SYSTEM_NAME: dialect,
            DB_OPERATION_NAME: operation,
            DB_QUERY_TEXT: statement[:_LONGEST_TEXT],
        }
        if error is not None:
            attributes[ERROR_TYPE] = f"{error.__module__}.{error.__qualname__}"
        add_span(
            self._tracer, operation, duration_s=time.perf_counter() - started_s, attributes=attributes,
            kind=SpanKind.CLIENT, has_failed=error is not None,
        )  # fmt: skip
