"""The OpenAPI document: FastAPI's own, with the contract's problems in place of FastAPI's errors."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from service.contract.imports import ImportRequest
from service.contract.problem import Problem
from service.contract.rigs import ParseRequest
from service.shells.rest.openapi_access import describe_access

DESCRIPTION = (
    "Says where an inference engine puts every byte of a model on a rig of GPUs, whether it fits, and how fast it will "
    "run. Bytes are integers, seconds floats; every quantity carries its unit at the end of its name. Refusals are "
    "`application/problem+json` (RFC 9457); a model that does not fit is an answer, not a refusal."
)
_FRAMEWORK_SCHEMAS = ("HTTPValidationError", "ValidationError")


def operation_id(route: APIRoute) -> str:
    """Name of an operation for generated clients: that of its function."""
    return route.name


def describe(app: FastAPI) -> None:
    """Make the application describe itself as the contract does."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _document(app)
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]


def _document(app: FastAPI) -> dict[str, Any]:
    document = get_openapi(
        title=app.title,
        version=app.version,
        openapi_version=app.openapi_version,
        summary=app.summary,
        description=app.description,
        routes=app.routes,
    )
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    for name in _FRAMEWORK_SCHEMAS:
        schemas.pop(name, None)
    for model in (Problem, ImportRequest, ParseRequest):
        # no endpoint's signature has them: problems are raised, and some bodies are read as they come
        schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas.update(schema.pop("$defs", {}))
        schemas[model.__name__] = schema
    for operations in document["paths"].values():
        for operation in operations.values():
            _drop_framework_error(operation["responses"])
    describe_access(document)
    return document


def _drop_framework_error(responses: dict[str, Any]) -> None:
    """Take out the 422 that FastAPI adds to every operation with parameters and that no handler gives."""
    content = responses.get("422", {}).get("content", {})
    if "application/json" in content:
        del content["application/json"]
        if not content:
            del responses["422"]
