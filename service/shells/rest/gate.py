"""Lets a request in that shows the key its address needs, or needs none."""

from http.cookies import CookieError, SimpleCookie
from typing import Final

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from service.contract.problem import problem
from service.planning.access.needs import need_of
from service.planning.access.ring import KeyRing
from service.settings import Settings
from service.shells.current_keys import read_in_time
from service.shells.rest.caller import ANONYMOUS, CALLER, Caller, is_of_this_machine
from service.shells.rest.problems import problem_response
from service.shells.rest.rate_limits import RateLimits
from service.shells.web.saved import prefers_page
from service.shells.web.sign_in import COOKIE, sign_in_page
from service.store.audit import acting_as

HEADER: Final = "X-API-Key"
CHALLENGE: Final = f'ApiKey realm="rigfit", header="{HEADER}"'
_RAW_HEADER: Final = HEADER.lower().encode()


class Gate:
    """ASGI middleware: 401 without a valid key where one is needed, 403 without its scope, 429 beyond a rate.

    Requests that need no key and show none pass at once where no rate is set. The keys are `app.state.keys`.
    """

    def __init__(self, app: ASGIApp, settings: Settings, limits: RateLimits | None) -> None:
        self.app = app
        self._reading_needs_key = settings.require_key_to_read
        self._writes_without_key = settings.writes_without_key
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, with its caller, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        need = need_of(scope["method"], scope["path"].removeprefix(scope.get("root_path", "")))
        is_open = need is None or (need == "read" and not self._reading_needs_key)
        # what is open to everyone at any time looks at no key, so that it depends on no database
        shown = None if need is None else _shown(scope)
        found = None if need is None or (shown is None and is_open) else await self._caller(scope, shown, need, is_open)
        caller = found if isinstance(found, Caller) else None
        if self._limits is not None and (charge := self._limits.charge(scope, caller)) is not None:
            if charge.is_refused:
                await _answer(scope, "rate-limited", charge.detail, charge.headers)(scope, receive, send)
                return
            send = charge.told(send)
        if isinstance(found, Response):
            await found(scope, receive, send)
        elif found is None:
            await self.app(scope, receive, send)
        else:
            scope[CALLER] = found
            with acting_as(found.name):
                await self.app(scope, receive, send)

    async def _caller(self, scope: Scope, shown: str | None, need: str, is_open: bool) -> Caller | Response | None:
        """Who asks, or why he may not; None for nobody in particular."""
        ring: KeyRing = scope["app"].state.keys
        await read_in_time(ring)
        if not ring.was_read:
            away = "The database does not answer, so keys cannot be checked."
            return None if is_open else _answer(scope, "not-ready", away)
        if shown is None and need == "read":
            shown = _cookie(scope)
        if shown is None:
            may_write = need != "read" and self._is_open_to(scope, ring)
            return ANONYMOUS if may_write else _unauthorized(scope, need, is_wrong=False)
        holder = ring.holder(shown)
        if holder is None:
            return _unauthorized(scope, need, is_wrong=True)
        if need not in {"read", *holder.scopes}:
            return _answer(scope, "forbidden", f"The key {holder.name} has no scope {need}, which this needs.")
        return Caller(name=holder.name, key_id=holder.key_id)

    def _is_open_to(self, scope: Scope, ring: KeyRing) -> bool:
        """Whether what needs a key may be done without: on the machine itself, until the first key is made."""
        if self._writes_without_key == "local":
            return ring.is_empty and is_of_this_machine(scope)
        return self._writes_without_key == "always"


def _shown(scope: Scope) -> str | None:
    for name, value in scope["headers"]:
        if name == _RAW_HEADER:
            text: str = value.decode("latin-1")
            return text.strip()
    return None


def _cookie(scope: Scope) -> str | None:
    """The key that a browser was given at /sign-in; it counts for reading alone, so that no page can write with it."""
    try:
        held = SimpleCookie(Headers(scope=scope).get("cookie", "")).get(COOKIE)
    except CookieError:
        return None
    return None if held is None else held.value


def _unauthorized(scope: Scope, need: str, *, is_wrong: bool) -> Response:
    if scope["method"] == "GET" and prefers_page(Request(scope)):
        query = scope["query_string"].decode("latin-1")
        target = f"{scope['path']}?{query}" if query else scope["path"]
        return sign_in_page(target, status=401, challenge=CHALLENGE, is_wrong=is_wrong)
    said = "The key is unknown, expired or revoked" if is_wrong else "This needs a key"
    detail = f"{said}: send one with the scope {need} as {HEADER} (rigfit keys create NAME --scope {need})."
    return _answer(scope, "unauthorized", detail, {"WWW-Authenticate": CHALLENGE})


def _answer(scope: Scope, slug: str, detail: str, headers: dict[str, str] | None = None) -> Response:
    return problem_response(problem(slug, detail, instance=scope["path"]), headers)
