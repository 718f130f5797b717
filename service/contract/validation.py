"""Bytes or decoded JSON → PlanRequest, or a problem that names every field in the caller's own spelling."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from math import isfinite
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from service.contract.engine import ENGINE_NAMES
from service.contract.imports import ImportRequest
from service.contract.problem import FieldError
from service.contract.request import PlanRequest
from service.core.problems import InvalidRequest, PlanProblem, UnknownEngine

Request = TypeVar("Request", bound=BaseModel)
_NAMES_OR_OBJECTS = (("model",), ("rig",))
_SHOWN_ERRORS = 20


class RefusedFields(InvalidRequest):
    """Fields that are unknown, missing or out of range; `errors` says which and why."""

    def __init__(self, errors: Sequence[FieldError]) -> None:
        shown = "; ".join(f"{error.pointer or 'the request'} {error.message}" for error in errors[:3])
        more = f"; and {len(errors) - 3} more" if len(errors) > 3 else ""
        super().__init__(f"{shown}{more}.")
        self.errors = tuple(errors[:_SHOWN_ERRORS])


def parse_request(raw: bytes) -> PlanRequest:
    """Read one PlanRequest from JSON.

    Raises InvalidRequest where it is not JSON or a field is refused, UnknownEngine for an engine without a model here.
    """
    try:
        return PlanRequest.model_validate_json(raw)
    except ValidationError as refused:
        raise refusal(refused, _decoded(raw)) from None


def parse_import(raw: bytes) -> ImportRequest:
    """Read one ImportRequest from JSON; raises InvalidRequest where it is not JSON or a field is refused."""
    try:
        return ImportRequest.model_validate_json(raw)
    except ValidationError as refused:
        raise refusal(refused, _decoded(raw)) from None


def validate_import(value: object) -> ImportRequest:
    """Check a decoded ImportRequest; raises InvalidRequest."""
    try:
        return ImportRequest.model_validate(value)
    except ValidationError as refused:
        raise refusal(refused, value) from None


def parse_as(kind: type[Request], raw: bytes) -> Request:
    """Read a request of any kind from JSON; raises as `parse_request` does."""
    try:
        return kind.model_validate_json(raw)
    except ValidationError as refused:
        raise refusal(refused, _decoded(raw)) from None


def validate_as(kind: type[Request], value: object) -> Request:
    """Check a decoded request of any kind; raises as `parse_request` does."""
    try:
        return kind.model_validate(value)
    except ValidationError as refused:
        raise refusal(refused, value) from None


def validate_request(value: object) -> PlanRequest:
    """Check decoded JSON; raises as `parse_request` does."""
    try:
        return PlanRequest.model_validate(value)
    except ValidationError as refused:
        raise refusal(refused, value) from None


def refusal(refused: ValidationError, value: object) -> PlanProblem:
    """Turn pydantic's findings about `value` into one problem."""
    return refusal_of_errors(refused.errors(include_url=False, include_context=True), value)


def refusal_of_errors(errors: Sequence[ErrorDetails], value: object) -> PlanProblem:
    """Turn pydantic's error details about `value` into one problem, each field once."""
    for error in errors:
        if error["type"] == "json_invalid":
            return InvalidRequest(f"The request is not JSON: {error['msg']}.")
        if error["type"].startswith("union_tag") and {"engine", "engines"}.intersection(error["loc"][-2:]):
            return _unknown_engine(error, _pointer(error, value))
    messages: dict[str, list[str]] = {}
    for error in errors:
        messages.setdefault(_pointer(error, value), []).append(_message(error))
    return RefusedFields(
        [FieldError(pointer=pointer, message=" or ".join(dict.fromkeys(found))) for pointer, found in messages.items()]
    )


def _decoded(raw: bytes) -> object:
    from pydantic_core import from_json  # noqa: PLC0415 - only a refused request is decoded a second time

    try:
        value: object = from_json(raw)
    except ValueError:
        return None
    return value


def _unknown_engine(error: ErrorDetails, pointer: str) -> PlanProblem:
    given = error["input"]
    name = given.get("name") if isinstance(given, Mapping) else given
    if not isinstance(name, str):
        message = f'must be an object whose "name" is one of {", ".join(ENGINE_NAMES)}'
        return RefusedFields([FieldError(pointer=pointer, message=message)])
    close = get_close_matches(name.lower(), ENGINE_NAMES, n=2, cutoff=0.5)
    return UnknownEngine(
        f"There is no engine named {name[:80]!r}; known are {', '.join(ENGINE_NAMES)}.",
        suggestions=close or ENGINE_NAMES,
        fields=(f"{pointer.strip('/').replace('/', '.')}.name",),
    )


def _pointer(error: ErrorDetails, value: object) -> str:
    """JSON pointer of the field, without the names of the union members that pydantic tried."""
    parts: list[str] = []
    current: Any = value
    for position, part in enumerate(error["loc"]):
        inside = (isinstance(current, Mapping) and part in current) or (
            isinstance(current, Sequence) and not isinstance(current, str) and isinstance(part, int)
        )
        if inside:
            current = current[part]
            parts.append(str(part))
        elif error["type"] == "missing" and position == len(error["loc"]) - 1:
            parts.append(str(part))
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in parts)


def _message(error: ErrorDetails) -> str:
    if error["type"] == "extra_forbidden":
        return _unknown_field(str(error["loc"][-1]))
    if error["type"] == "missing":
        return "is required"
    if isinstance(error["input"], float) and not isfinite(error["input"]):
        return "must be a finite number, not NaN or infinity"
    if error["type"] == "model_type":
        return "should be a name or an object" if _may_be_name(error) else "should be an object"
    return error["msg"].removeprefix("Input ").removeprefix("Value error, ")


def _may_be_name(error: ErrorDetails) -> bool:
    """Whether the field takes a name as well: by its place, or where pydantic chose between a name and an object."""
    return error["loc"][:1] in _NAMES_OR_OBJECTS or str(*error["loc"][-1:]).startswith("<")


def _unknown_field(name: str) -> str:
    from service.contract.request_models import REQUEST_MODELS  # noqa: PLC0415 - only a wrong name needs all of them

    known = {field for model in REQUEST_MODELS for field in model.model_fields} - {name}
    close = get_close_matches(name, sorted(known), n=1)
    hint = f"; did you mean {close[0]}?" if close else ""
    return f"is not a field here{hint}"
