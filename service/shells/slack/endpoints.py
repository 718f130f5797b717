"""POST /slack/commands, /slack/events and /slack/interactions; outside the OpenAPI document, for Slack alone asks."""

from collections.abc import Callable

from fastapi import APIRouter, Request
from slack_bolt.adapter.starlette.handler import to_bolt_request, to_starlette_response
from sqlalchemy import Engine
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from service.planning.planner import Planner
from service.settings import Settings
from service.shells.rest.problems import Refusal
from service.shells.slack.listeners import bolt_app
from service.shells.web.rendering import origin


def slack_router(settings: Settings, planner: Callable[[], Planner], database: Callable[[], Engine]) -> APIRouter:
    """The three addresses, each answered by the same app."""
    app = bolt_app(settings, planner, database)
    router = APIRouter(include_in_schema=False, prefix="/slack")

    @router.post("/commands")
    @router.post("/events")
    @router.post("/interactions")
    async def receive(request: Request) -> Response:
        context = {"origin": (settings.public_url or origin(request)).rstrip("/")}
        try:
            asked = to_bolt_request(request, await request.body(), context)
        except (ValueError, TypeError, AttributeError):
            # bolt reads bodies before it looks at signatures
            raise Refusal("invalid-request", "The body is none that Slack sends.") from None
        # bolt waits for its listeners, and they for plans: not in the event loop
        return to_starlette_response(await run_in_threadpool(app.dispatch, asked))

    return router
