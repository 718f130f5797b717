"""One line per request, written by hand: the way through the loggers would take longer than many an answer."""

import sys
from datetime import UTC, datetime
from typing import Final

import orjson

from service.settings import Settings

# probes ask every few seconds; they are told of where they are refused
_PROBED: Final = frozenset({"/healthz", "/readyz", "/metrics"})


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
        self, *, method: str, path: str, status: int, duration_s: float, client: str | None, request_id: str
    ) -> None:
        """Tell of one request; `path` as it was sent, percent-encoded."""
        if status < 400 and path in _PROBED:
            return
        at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        if not self._as_json:
            line = f"{at} [info     ] {method} {path} {status} {duration_s * 1000:.1f} ms id={request_id}\n"
            sys.stderr.write(line)
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
        sys.stderr.write(orjson.dumps(event, option=orjson.OPT_APPEND_NEWLINE).decode())
