"""Templates, and the headers that every page carries."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader
from starlette.requests import Request
from starlette.responses import HTMLResponse

from service.shells.web import formats
from service.shells.web.bars import WIDTH

FOLDER: Final = Path(__file__).parent
# nothing but what this service serves runs or is loaded, and nothing of it inline
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


def render(template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
    """Fill a template in; whatever is put into it is text, not markup."""
    content = _environment().get_template(template).render(values)
    return HTMLResponse(content, status_code=status, headers=dict(HEADERS))


def origin(request: Request) -> str:
    """Where the service is reached, as the browser that asks sees it."""
    return str(request.base_url).rstrip("/")


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(FOLDER / "templates"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.globals["bar_width"] = WIDTH
    environment.filters |= {
        "gib": formats.gib, "whole": formats.whole, "rate": formats.rate, "duration": formats.duration,
        "watts": formats.watts, "gigabytes": formats.gigabytes, "number": formats.number, "scaled": formats.scaled,
    }  # fmt: skip
    return environment
