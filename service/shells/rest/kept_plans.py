"""POST /plan of the very bytes that were asked before, answered ahead of the framework."""

from typing import Final

from fastapi import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.shells.rest.media import JSON
from service.shells.rest.plan import PLAN_ROUTE
from service.shells.rest.plan_bytes import LONGEST_KEPT_BYTES, PlanBytes

_JSON: Final = JSON.encode()


class KeptPlans:
    """ASGI middleware that sends an answer that lies ready, and passes everything else on as it came.

    To find an endpoint and to fill in its parameters takes the framework longer than all that is left to do for such an
    answer.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or pass the request on."""
        if not _may_be_kept(scope):
            await self.app(scope, receive, send)
            return
        first: Message | None = await receive()
        answer = _kept(scope, first)
        if answer is not None:
            scope["route"] = PLAN_ROUTE
            await Response(answer, media_type=JSON)(scope, receive, send)
            return

        async def from_the_first() -> Message:
            nonlocal first
            message, first = first, None
            return await receive() if message is None else message

        await self.app(scope, from_the_first, send)


def _may_be_kept(scope: Scope) -> bool:
    """Whether a request is a short question in JSON that states its length."""
    if scope["type"] != "http" or scope["method"] != "POST" or scope["path"] != "/plan" or scope["query_string"]:
        return False
    is_json = is_short = False
    for name, value in scope["headers"]:
        if name == b"content-type":
            is_json = value == _JSON
        elif name == b"content-length":
            is_short = value.isdigit() and int(value) <= LONGEST_KEPT_BYTES
    return is_json and is_short


def _kept(scope: Scope, first: Message | None) -> bytes | None:
    """The answer, where the whole question came at once and was asked before."""
    if first is None or first["type"] != "http.request" or first.get("more_body", False):
        return None
    plans: PlanBytes = scope["app"].state.plan_bytes
    return plans.again(first.get("body", b""))
