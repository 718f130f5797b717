"""Which request bodies are read."""

from fastapi import Request

from service.shells.rest.problems import Refusal

JSON = "application/json"
FORM = "multipart/form-data"
TEXT = "text/plain"
CSV = "text/csv"
JSONL = "application/jsonl"
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
_LINES = {JSONL, "application/x-ndjson", "application/x-jsonlines"}
_PRINTED = {*_LINES, "application/sql"}


async def require_json(request: Request) -> None:
    """Refuse a body that does not say it is JSON.

    Raises Refusal `unsupported-media`.
    """
    if not is_json(request):
        raise unsupported_media(request, JSON)


def is_json(request: Request) -> bool:
    """Whether a body says that it is JSON."""
    media_type = media_type_of(request)
    return media_type == JSON or (media_type.startswith("application/") and media_type.endswith("+json"))


def is_lines(request: Request) -> bool:
    """Whether a body says that it is JSON Lines."""
    return media_type_of(request) in _LINES


def is_form(request: Request) -> bool:
    """Whether a body says that it is a form with files."""
    return media_type_of(request) == FORM


def is_text(request: Request) -> bool:
    """Whether a body says that it is text as a program printed it, of whatever kind."""
    media_type = media_type_of(request)
    return media_type.startswith("text/") or is_json(request) or media_type in _PRINTED


def unsupported_media(request: Request, *read: str) -> Refusal:
    """The refusal of a body of a media type that is none of those which are read."""
    media_type = media_type_of(request)
    given = f"{media_type[:80]!r} is not" if media_type else "a body without a content type is not"
    return Refusal(
        "unsupported-media", f"Send {' or '.join(read)}; {given} read here.", headers={"Accept": ", ".join(read)}
    )


def media_type_of(request: Request) -> str:
    """The media type that a body says it has, without parameters; empty where it says none."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()
