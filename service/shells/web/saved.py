"""A kept plan as a page that prints well, for a browser that asks for its address."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from service.contract.problem import problem
from service.contract.query_text import address_of_request
from service.contract.validation import validate_request
from service.core.problems import PlanProblem
from service.shells.web.answer import BASES, VERDICTS, answer_of, supply_w
from service.shells.web.links import PATH
from service.shells.web.rendering import origin, render
from service.store.plans import SavedPlan

HTML = "text/html"


def prefers_page(request: Request) -> bool:
    """Whether the client asks for a page rather than for JSON, as browsers do.

    Source: RFC 9110, 12.5.1: media ranges with their weights.
    """
    weights: dict[str, float] = {}
    for entry in request.headers.get("accept", "").split(","):
        media_type, *parameters = (part.strip().lower() for part in entry.split(";"))
        weights[media_type] = min((_weight(parameter) for parameter in parameters), default=1.0)
    return weights.get(HTML, 0.0) > weights.get("application/json", 0.0)


def saved_page(request: Request, kept: SavedPlan) -> Response:
    """The plan as it was answered."""
    return render(
        "saved.html",
        saved=True,
        kept=kept,
        kept_on=f"{kept.created_at:%Y-%m-%d %H:%M} UTC",
        answer=answer_of(kept.plan),
        bases=BASES,
        verdicts=VERDICTS,
        origin=origin(request),
        alternatives=[(other, None) for other in kept.plan["alternatives"]],
        **_question(kept),
    )


def missing_page(detail: str) -> Response:
    """The page of a plan that was not kept."""
    shown = problem("not-found", detail)
    return render("saved.html", status=shown.status, problem=shown, refused=[], suggestions=[])


def _question(kept: SavedPlan) -> dict[str, Any]:
    """The question as this release reads it; nothing where it has no words for it any more."""
    try:
        request = validate_request(kept.request)
    except PlanProblem:
        return {}
    return {
        "ask_again": address_of_request(PATH, request),
        "request_json": request.model_dump_json(exclude_defaults=True),
        "supply_w": supply_w(request),
    }


def _weight(parameter: str) -> float:
    name, _, value = parameter.partition("=")
    try:
        return float(value) if name.strip() == "q" else 1.0
    except ValueError:
        return 1.0
