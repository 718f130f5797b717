"""The request under way: how it is called in logs and answers, and what was refused in it."""

import re
import secrets
from collections.abc import Iterable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

HEADER: Final = b"x-request-id"
# what callers and proxies use (UUIDs, trace ids), and nothing that could end a line of a log
_SENSIBLE: Final = re.compile(rb"[A-Za-z0-9._:@/+=-]{1,128}")


@dataclass(slots=True)
class Trace:
    """One request; every thread that works for it sees the same object."""

    request_id: str
    problem: str | None = None
    trace_id: str | None = None
    """The caller's or this service's trace, in hexadecimal, where traces are kept."""
    spans: int = 0
    """Spans of what was done for it, those that found no room included."""


CURRENT: ContextVar[Trace | None] = ContextVar("request", default=None)


def request_id_of(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """The id that the caller gave the request, or a new one where it gave none, or none that is sensible."""
    for name, value in headers:
        if name == HEADER and _SENSIBLE.fullmatch(value):
            return value.decode("ascii")
    return secrets.token_hex(16)
