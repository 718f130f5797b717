"""Ends requests that ask for more plans than are answered in time."""

from fastapi import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from service.contract.problem import problem
from service.planning.time_limit import limited_to
from service.shells.rest.problems import problem_response

_DETAIL = "This takes longer than is answered at once: ask for fewer plans, or send them as a table to /plan/batch."


class AnswerLimit:
    """ASGI middleware that lets no plan of a request begin after `limit_s`; tables have limits of their own."""

    def __init__(self, app: ASGIApp, limit_s: float) -> None:
        self.app = app
        self.limit_s = limit_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, with its end in its context."""
        if scope["type"] != "http" or scope["path"] == "/plan/batch":
            await self.app(scope, receive, send)
            return
        with limited_to(self.limit_s):
            await self.app(scope, receive, send)


async def out_of_time(request: Request, _: Exception) -> Response:
    """The problem of a request that asks for too much."""
    return problem_response(problem("took-too-long", _DETAIL, instance=request.url.path))
