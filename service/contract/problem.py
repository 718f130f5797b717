"""Problems as RFC 9457 describes them."""

from pydantic import BaseModel, ConfigDict, Field

from service.contract.problem_kinds import PROBLEM_KINDS
from service.core.problems import PlanProblem

MEDIA_TYPE = "application/problem+json"


class FieldError(BaseModel):
    """One field that was refused, and why."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    pointer: str = Field(description="JSON pointer of the field.", examples=["/workload/context_tokens"])
    message: str = Field(description="What is wrong with it.")


class Problem(BaseModel):
    """Why a question was not answered (RFC 9457, `application/problem+json`)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: str = Field(description="Address of the kind of problem.", examples=["/problems/unknown-gpu"])
    title: str = Field(description="The kind of problem in words.", examples=["Unknown GPU"])
    status: int = Field(description="HTTP status.", examples=[404])
    detail: str = Field(description="What is wrong here and what to do.")
    instance: str | None = Field(None, description="The request concerned.", examples=["/plan"])
    request_id: str | None = Field(
        None,
        description="Names the request in the service's log, as the header X-Request-ID does.",
        examples=["5f2b1c7e0d7a4c8e9d3b6a1f4e2c8b70"],
    )
    suggestions: list[str] = Field(default_factory=list, description="Close valid values.", examples=[["rtx-3090"]])
    errors: list[FieldError] = Field(default_factory=list, description="Every field that was refused.")


def problem(
    slug: str,
    detail: str,
    *,
    instance: str | None = None,
    suggestions: tuple[str, ...] = (),
    errors: tuple[FieldError, ...] = (),
    status: int | None = None,
) -> Problem:
    """Fill in what the kind of problem says about every problem of its kind."""
    kind = PROBLEM_KINDS[slug]
    return Problem(
        type=f"/problems/{slug}",
        title=kind.title,
        status=kind.status if status is None else status,
        detail=detail,
        instance=instance,
        suggestions=list(suggestions),
        errors=list(errors),
    )


def problem_of(refusal: PlanProblem, instance: str | None = None) -> Problem:
    """Render what the core refused."""
    pointers = ("/" + field.replace(".", "/") for field in refusal.fields)
    errors = getattr(refusal, "errors", None) or tuple(
        FieldError(pointer=pointer, message=refusal.detail) for pointer in pointers
    )
    return problem(
        refusal.slug,
        refusal.detail,
        instance=instance,
        suggestions=refusal.suggestions,
        errors=errors,
        status=refusal.status,
    )
