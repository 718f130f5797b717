"""Which request bodies are read."""

from fastapi import Request

from service.shells.rest.problems import Refusal


def require_json(request: Request) -> None:
    """Refuse a body that does not say it is JSON.

    Raises Refusal `unsupported-media`.
    """
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type == "application/json" or (media_type.startswith("application/") and media_type.endswith("+json")):
        return
    given = f"{media_type[:80]!r} is not" if media_type else "a body without a content type is not"
    raise Refusal(
        "unsupported-media",
        f"Send application/json; {given} read here.",
        headers={"Accept": "application/json"},
    )
