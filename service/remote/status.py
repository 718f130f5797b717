"""What the statuses of other hosts mean here."""

import httpx2

from service.core.problems import UnknownModel
from service.remote.problems import ModelHostUnavailable, Unauthorized, UnreadableRemoteModel
from service.remote.retries import Transient

REDIRECTS = frozenset({301, 302, 303, 307, 308})
ASKED_FOR = frozenset({200, 206})
_BUSY = frozenset({408, 425, 429})


def refuse_status(answer: httpx2.Response, *, has_credential: bool) -> None:
    """Raise what a status other than success means; Transient where asking again may help."""
    status, place = answer.status_code, f"{answer.url.host}{answer.url.path}"
    if status in ASKED_FOR:
        return
    if status in (401, 403):
        raise Unauthorized(
            f"{answer.url.host} refuses {answer.url.path} ({status}): "
            + (
                "the Authorization that was sent does not open it."
                if has_credential
                else "it is private, gated or not there. Send an Authorization that opens it."
            )
        )
    if status in (404, 410):
        raise UnknownModel(f"{place} is not there ({status}).")
    if status == 416:
        raise UnreadableRemoteModel(f"{place} is shorter than a GGUF header ({status}).")
    failure = ModelHostUnavailable(f"{answer.url.host} answers with status {status}.")
    if status >= 500 or status in _BUSY:
        raise Transient(failure, _retry_after_s(answer))
    raise failure


def _retry_after_s(answer: httpx2.Response) -> float | None:
    """Seconds of Retry-After; None where there is none or it is a date."""
    text = answer.headers.get("retry-after", "")
    return float(text) if text.isdigit() and len(text) < 6 else None
