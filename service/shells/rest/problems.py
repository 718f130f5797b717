"""Every refusal and failure as RFC 9457 `application/problem+json`, and a page about each kind."""

from collections.abc import Sequence
from typing import Any, cast

import structlog
from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import ErrorDetails
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match

from service.contract.problem import MEDIA_TYPE, Problem, problem, problem_of
from service.contract.problem_kinds import PROBLEM_KINDS
from service.contract.validation import refusal_of_errors
from service.core.problems import InvalidRequest, PlanProblem
from service.shells.rest.trace import CURRENT
from service.store.outages import is_outage, lacks_tables

log = structlog.get_logger(__name__)
router = APIRouter(tags=["problems"])

_SLUG_BY_STATUS = {
    400: "invalid-request",
    401: "unauthorized",
    403: "forbidden-host",
    404: "not-found",
    405: "method-not-allowed",
    408: "request-timeout",
    413: "too-large",
    415: "unsupported-media",
    422: "invalid-request",
    429: "rate-limited",
    503: "not-ready",
}


# RFC 9110, 15.5.2 and RFC 6585, 4
_HEADERS_BY_STATUS = {
    401: {"WWW-Authenticate": "Bearer"},
    429: {"Retry-After": "1"},
    503: {"Retry-After": "5"},
}


class ProblemKindPage(BaseModel):
    """What one kind of problem means."""

    model_config = ConfigDict(extra="forbid")

    type: str = Field(examples=["/problems/unknown-gpu"])
    title: str
    status: int
    description: str


class Refusal(Exception):
    """A problem of HTTP itself, such as a media type that is not read here."""

    def __init__(self, slug: str, detail: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(detail)
        self.slug = slug
        self.detail = detail
        self.headers = headers


def problem_response(answer: Problem, headers: dict[str, str] | None = None) -> Response:
    """Serialise a problem, with the headers that belong to its status and the id of the request under way."""
    trace = CURRENT.get()
    if trace is not None:
        trace.problem = answer.type.rpartition("/")[2]
        answer = answer.model_copy(update={"request_id": trace.request_id})
    return Response(
        answer.model_dump_json(exclude_defaults=True),
        status_code=answer.status,
        media_type=MEDIA_TYPE,
        headers=_HEADERS_BY_STATUS.get(answer.status, {}) | (headers or {}),
    )


def responses(*slugs: str) -> dict[int | str, dict[str, Any]]:
    """OpenAPI responses for these kinds of problem, one entry per status."""
    by_status: dict[int, list[str]] = {}
    for slug in slugs:
        by_status.setdefault(PROBLEM_KINDS[slug].status, []).append(slug)
    return {
        status: {
            "description": " ".join(f"`{slug}`: {PROBLEM_KINDS[slug].description}" for slug in found),
            "content": {
                MEDIA_TYPE: {
                    "schema": {"$ref": "#/components/schemas/Problem"},
                    "examples": {slug: {"value": _example(slug)} for slug in found},
                }
            },
        }
        for status, found in sorted(by_status.items())
    }


def _example(slug: str) -> dict[str, Any]:
    kind = PROBLEM_KINDS[slug]
    return problem(slug, kind.description).model_dump(exclude_defaults=True)


@router.get(
    "/problems/{slug}",
    summary="A kind of problem",
    response_description="Its meaning.",
    responses=responses("not-found"),
)
def get_problem_kind(slug: str) -> ProblemKindPage:
    """Say what a kind of problem means; its address is the `type` of every such problem."""
    kind = PROBLEM_KINDS.get(slug)
    if kind is None:
        raise Refusal("not-found", f"There is no kind of problem named {slug!r}.")
    return ProblemKindPage(type=f"/problems/{slug}", title=kind.title, status=kind.status, description=kind.description)


def install_problem_handlers(app: FastAPI, routers: Sequence[APIRouter]) -> None:
    """Render everything that can go wrong in `routers` as a problem."""

    @app.exception_handler(PlanProblem)
    async def _plan_problem(request: Request, refusal: PlanProblem) -> Response:
        return problem_response(problem_of(refusal, instance=request.url.path))

    @app.exception_handler(Refusal)
    async def _refusal(request: Request, refusal: Refusal) -> Response:
        return problem_response(problem(refusal.slug, refusal.detail, instance=request.url.path), refusal.headers)

    @app.exception_handler(RequestValidationError)
    async def _validation(request: Request, refused: RequestValidationError) -> Response:
        return problem_response(problem_of(_plan_problem_of(refused, request), instance=request.url.path))

    @app.exception_handler(HTTPException)
    async def _http(request: Request, refused: HTTPException) -> Response:
        slug = _SLUG_BY_STATUS.get(refused.status_code, "internal-error")
        headers = dict(refused.headers or {})
        if refused.status_code == 405:
            headers["Allow"] = ", ".join(sorted(_methods(routers, request)))
        detail = _HTTP_DETAILS.get(slug, str(refused.detail)).format(method=request.method, path=request.url.path)
        return problem_response(problem(slug, detail, instance=request.url.path), headers)

    @app.exception_handler(SQLAlchemyError)
    async def _database(request: Request, failure: SQLAlchemyError) -> Response:
        log.error("the database failed", path=request.url.path, error=str(failure).partition("\n")[0])
        if lacks_tables(failure):
            slug, detail = "not-ready", "The database has not the tables of this release: run rigfit migrate."
        elif is_outage(failure):
            slug, detail = (
                "not-ready",
                "The database does not answer or cannot write, so nothing was kept: try again in a while.",
            )
        else:
            slug, detail = "internal-error", _FAILED
        return problem_response(problem(slug, detail, instance=request.url.path))

    @app.exception_handler(Exception)
    async def _failure(request: Request, _: Exception) -> Response:
        return problem_response(problem("internal-error", _FAILED, instance=request.url.path))


_FAILED = "The service failed on this request; the cause is in its log."
_HTTP_DETAILS = {
    "not-found": "There is nothing at this address.",
    "method-not-allowed": "This address does not answer {method}.",
    "invalid-request": "The request body could not be read as JSON.",
}


def _methods(routers: Sequence[APIRouter], request: Request) -> set[str]:
    """Every method that the address answers; the framework names those of the first endpoint there only.

    Where a path is spelled out, what a pattern would make of it (`/rigs/{slug}` of `/rigs/parse`) is another resource.
    """
    found = [
        route for router in routers for route in router.routes if route.matches(request.scope)[0] is not Match.NONE
    ]
    spelled_out = [route for route in found if getattr(route, "path", None) == request.url.path]
    return {method for route in spelled_out or found for method in getattr(route, "methods", None) or ()}


def _plan_problem_of(refused: RequestValidationError, request: Request) -> PlanProblem:
    """Take FastAPI's findings about body, query, path and header as findings about the value that the caller sent."""
    errors: Sequence[Any] = refused.errors()
    for error in errors:
        if error["type"] == "json_invalid":
            return InvalidRequest(f"The request is not JSON: {error.get('ctx', {}).get('error', error['msg'])}.")
    inner = [cast("ErrorDetails", {**error, "loc": tuple(error["loc"])[1:]}) for error in errors]
    if errors and errors[0]["loc"][0] == "body":
        if refused.body is None and inner[0]["loc"] == ():
            return InvalidRequest("The request has no body; send JSON.")
        return refusal_of_errors(inner, refused.body)
    named = [error["loc"][-1] for error in errors if error["loc"][0] == "header"]
    headers = {name: request.headers.get(name) for name in named}
    given: dict[str, Any] = {**request.query_params, **request.path_params, **headers}
    return refusal_of_errors(inner, given)
