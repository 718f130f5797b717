"""What each address needs, and that none was forgotten."""

import pytest

from service.app import create_app
from service.planning.access.needs import OPEN, READS, SAFE_METHODS, WRITES, need_of
from service.settings import Settings

# FastAPI keeps the routers that it was given
ROUTERS = [router for mounted in create_app(Settings()).routes if (router := getattr(mounted, "original_router", None))]
ROUTES = [(method, route.path) for router in ROUTERS for route in router.routes for method in sorted(route.methods)]


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_every_route_was_thought_of(method: str, path: str) -> None:
    """What is not safe is listed with the scope it needs, or among what is open; a new route has to be entered."""
    part = path.split("/")[1]
    assert ROUTES
    assert method in SAFE_METHODS or part in OPEN or part in WRITES


def test_only_what_is_served_is_listed() -> None:
    """The tables name addresses that exist."""
    parts = {path.split("/")[1] for _, path in ROUTES}
    assert {*READS, *WRITES} <= parts


@pytest.mark.parametrize(
    ("method", "path", "need"),
    [
        ("GET", "/", "read"),
        ("POST", "/plan", "read"),
        ("POST", "/plans", "read"),
        ("POST", "/plan/batch", "read"),
        ("GET", "/models/llama", "read"),
        ("POST", "/models", "models"),
        ("DELETE", "/models/x", "models"),
        ("POST", "/models/", "models"),
        ("PUT", "/gpus/rtx-3090", "cards"),
        ("POST", "/measurements", "measurements"),
        ("GET", "/audit", "audit"),
        ("GET", "/healthz", None),
        ("POST", "/slack/commands", None),
        ("GET", "/static/page.js", None),
        ("POST", "/nowhere", "read"),
        ("GET", "*", "read"),
    ],
)
def test_needs(method: str, path: str, need: str | None) -> None:
    """Changing needs the scope of what is changed, asking needs to read, and health needs nothing."""
    assert need_of(method, path) == need
