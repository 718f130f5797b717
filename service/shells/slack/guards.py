"""What a request of Slack's must be beside signed: of our workspace, and not answered already."""

from collections.abc import Callable
from typing import Any

from slack_bolt import BoltRequest, BoltResponse

from service.shells.slack.once import Seen

Guard = Callable[..., BoltResponse]


def team_guard(team_id: str) -> Guard:
    """Refuse every workspace but one."""

    # the names of the parameters are what bolt goes by
    def refuse_other_teams(body: dict[str, Any], next: Callable[[], BoltResponse]) -> BoltResponse:  # noqa: A002
        if team_of(body) != team_id:
            return BoltResponse(status=403, body="This workspace is not answered here.")
        return next()

    return refuse_other_teams


def once_guard(seen: Seen) -> Guard:
    """Accept what was sent again without answering it again."""

    def answer_once(
        request: BoltRequest,
        body: dict[str, Any],
        next: Callable[[], BoltResponse],  # noqa: A002
    ) -> BoltResponse:
        if not seen.is_new(_marks(request, body)):
            return BoltResponse(status=200, body="")
        return next()

    return answer_once


def team_of(body: dict[str, Any]) -> str | None:
    """The workspace that a request comes from, None where it does not say."""
    team = body.get("team_id") or (body.get("team") or {}).get("id")
    return team if isinstance(team, str) else None


def _marks(request: BoltRequest, body: dict[str, Any]) -> list[str]:
    """An event's id, which its retries share, and the signature, which a replay has."""
    events = [f"event {body['event_id']}"] if body.get("event_id") else []
    return [*events, *(f"signature {signature}" for signature in request.headers.get("x-slack-signature", ()))]
