"""One line per request, written by hand: the way through the loggers would take longer than many an answer."""

import sys
from datetime import UTC, datetime
from typing import Final

import orjson

from service.settings import Settings

# probes ask every few seconds; they are told of where they are refused
PROBED: Final = frozenset({"/healthz", "/readyz", "/metrics"})


def access_log(settings: Settings) -> "AccessLog | None":
    """The log as the settings want it, None where they want none."""
    if not settings.access_log or settings.log_level in ("warning", "error"):
        return None
    return AccessLog(as_json=settings.log_format == "json")


class AccessLog:
    """Lines in the form of the other events; queries are left out, which may hold what is nobody's business."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json

    def write(
        self,
        *,
        method: str,
        path: str,
        status: int,
        duration_s: float,
        client: str | None,
        request_id: str,
        trace_id: str | None,
    ) -> None:
        """Tell of one request; `path` as it was sent, percent-encoded."""
        if status < 400 and path in PROBED:
            return
        at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        if not self._as_json:
            ids = f"id={request_id}" if trace_id is None else f"id={request_id} trace={trace_id}"
            sys.stderr.write(f"{at} [info     ] {method} {path} {status} {duration_s * 1000:.1f} ms {ids}\n")
            return
        event = {
            "event": "request",
            "method": method,
            "path": path,
            "status": status,
            "duration_s": round(duration_s, 6),
            "client": client,
            "request_id": request_id,
            "level": "info",
            "timestamp": at,
        }
        if trace_id is not None:
            event["trace_id"] = trace_id
        sys.stderr.write(orjson.dumps(event, option=orjson.OPT_APPEND_NEWLINE).decode())
