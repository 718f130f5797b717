"""The Slack app: what is done on a command, a mention, a button and a form."""

import logging
import re
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

import structlog
from slack_bolt import Ack, App, BoltContext, BoltResponse, Respond
from slack_bolt.authorization import AuthorizeResult
from slack_sdk import WebClient
from sqlalchemy import Engine

from service.planning.planner import Planner
from service.settings import Settings
from service.shells.slack.answers import answer_query, answer_request, answer_text, names_of
from service.shells.slack.blocks import ASK, CORRECT, OPEN, SHARE, Message
from service.shells.slack.guards import once_guard, team_guard
from service.shells.slack.modal import (
    FORM,
    MODEL_FIELD,
    RefusedForm,
    form_request,
    form_view,
    message_view,
    model_options,
)
from service.shells.slack.once import Seen
from service.shells.slack.parts import section

log = structlog.get_logger(__name__)
Body = dict[str, Any]

# Slack gives up after 3 s; what takes longer than this is answered through the response_url instead
PATIENCE_S: Final = 1.5
# more than the models that one process fetches at once, so that slow questions leave threads for quick ones
PLANNING_THREADS: Final = 16
LISTENING_THREADS: Final = 32
_WAIT: Final = "Reading the model; the answer follows."
_WORKING: Final = Message(text=_WAIT, blocks=[section(_WAIT)])
_FORM_WORDS: Final = {"", "form", "rig"}


class Listeners:
    """Answers to what people do in Slack; each is called in a thread of its own."""

    def __init__(self, planner: Callable[[], Planner]) -> None:
        self._planner = planner
        self._threads = ThreadPoolExecutor(PLANNING_THREADS, thread_name_prefix="slack-plan")

    def command(self, ack: Ack, body: Body, respond: Respond, client: WebClient, context: BoltContext) -> None:
        """Answer `/rigfit …` to the one who asked, or open the form."""
        text = body.get("text", "")
        if text.strip().casefold() in _FORM_WORDS:
            ack()
            client.views_open(trigger_id=body["trigger_id"], view=form_view(body.get("channel_id", "")))
            return
        answer = self._threads.submit(answer_text, self._planner(), text, context["origin"])
        if _is_soon(answer):
            ack(**_sent(answer.result()), response_type="ephemeral")
            return
        ack(**_sent(_WORKING), response_type="ephemeral")
        respond(**_sent(answer.result()), response_type="ephemeral", replace_original=False)

    def mention(self, event: Body, client: WebClient, context: BoltContext) -> None:
        """Answer a mention in its thread, for everyone there; bots are not answered."""
        if event.get("bot_id"):
            return
        message = answer_text(self._planner(), event.get("text", ""), context["origin"])
        thread = event.get("thread_ts") or event["ts"]
        client.chat_postMessage(channel=event["channel"], thread_ts=thread, **_sent(message))

    def ask(self, ack: Ack, body: Body, respond: Respond, client: WebClient, context: BoltContext) -> None:
        """Answer the question of a button: in the place of an answer that only its asker sees, else beside it."""
        ack()
        action = body["actions"][0]
        if action["action_id"].startswith(CORRECT):
            message = answer_text(self._planner(), action["value"], context["origin"])
        else:
            message = answer_query(self._planner(), action["value"], context["origin"])
        if view := body.get("view"):
            client.views_update(view_id=view["id"], view=message_view(message, view.get("private_metadata", "")))
            return
        place = body.get("container", {})
        respond(
            **_sent(message), response_type="ephemeral", replace_original=bool(place.get("is_ephemeral")),
            thread_ts=place.get("thread_ts"),
        )  # fmt: skip

    def share(self, ack: Ack, body: Body, respond: Respond, client: WebClient, context: BoltContext) -> None:
        """Post the answer for everyone in the channel."""
        ack()
        query, user = body["actions"][0]["value"], body["user"]["id"]
        message = answer_query(self._planner(), query, context["origin"], shared_by=user)
        if view := body.get("view"):
            client.chat_postMessage(channel=view["private_metadata"], **_sent(message))
            return
        thread = body.get("container", {}).get("thread_ts")
        respond(**_sent(message), response_type="in_channel", replace_original=False, thread_ts=thread)

    def submitted(self, ack: Ack, view: Body, client: WebClient, context: BoltContext) -> None:
        """Show the answer in the place of the form, or what is wrong beside its fields."""
        channel = view.get("private_metadata", "")
        try:
            request = form_request(view["state"]["values"], names_of(self._planner()))
        except RefusedForm as refused:
            ack(response_action="errors", errors=refused.errors)
            return
        answer = self._threads.submit(answer_request, self._planner(), request, context["origin"])
        if _is_soon(answer):
            ack(response_action="update", view=message_view(answer.result(), channel))
            return
        ack(response_action="update", view=message_view(_WORKING, channel))
        client.views_update(view_id=view["id"], view=message_view(answer.result(), channel))

    def options(self, ack: Ack, body: Body) -> None:
        """Models for what was typed in the form."""
        ack(options=model_options(self._planner(), body.get("value", "")))


def bolt_app(settings: Settings, planner: Callable[[], Planner], database: Callable[[], Engine]) -> App:
    """The app of the workspace that the settings name; `planner` gives what answers, `database` what remembers."""
    secret, token, team = settings.slack_signing_secret, settings.slack_bot_token, settings.slack_team_id
    if secret is None or token is None or team is None:
        raise ValueError("the Slack app is not configured")
    app = App(
        signing_secret=secret.get_secret_value(),
        client=WebClient(base_url=settings.slack_api_url),
        authorize=_authorized(token.get_secret_value()),
        # a workspace's own token needs no look-up, and a question is answered although Slack's API is slow
        ignoring_self_events_enabled=False,
        listener_executor=ThreadPoolExecutor(LISTENING_THREADS, thread_name_prefix="slack"),
        logger=_logger(),
    )
    app.middleware(team_guard(team))
    app.middleware(once_guard(Seen(database)))
    _listen(app, Listeners(planner))
    return app


def _logger() -> logging.Logger:
    """The framework's loggers, which take their level from this one: below it they repeat requests, tokens included."""
    logger = logging.getLogger("slack_bolt")
    logger.setLevel(logging.WARNING)
    return logger


def _listen(app: App, listeners: Listeners) -> None:
    # whatever the command is called in the workspace, it is this app's only one
    app.command(re.compile(r"/.+"))(listeners.command)
    app.event("app_mention")(listeners.mention)
    app.action(re.compile(f"^(?:{ASK}|{CORRECT})_"))(listeners.ask)
    app.action(SHARE)(listeners.share)
    app.action(OPEN)(_acknowledge)
    app.view(FORM)(listeners.submitted)
    app.options(MODEL_FIELD)(listeners.options)
    app.error(_failed)


def _authorized(token: str) -> Callable[..., AuthorizeResult]:
    def authorize(enterprise_id: str | None, team_id: str | None) -> AuthorizeResult:
        return AuthorizeResult(enterprise_id=enterprise_id, team_id=team_id, bot_token=token)

    return authorize


def _acknowledge(ack: Ack) -> None:
    ack()


def _failed(error: Exception) -> BoltResponse:
    log.error("a request of Slack's failed", error=str(error), exc_info=error)
    return BoltResponse(status=500, body="")


def _is_soon(answer: Future[Message]) -> bool:
    try:
        answer.result(PATIENCE_S)
    except TimeoutError:
        return answer.done()
    return True


def _sent(message: Message) -> dict[str, Any]:
    return {"text": message.text, "blocks": message.blocks}
