"""Query parameters that an endpoint does not have are refused, not passed over."""

from collections.abc import Iterator

from fastapi import Request
from fastapi.dependencies.models import Dependant
from pydantic import BaseModel

from service.catalog.suggestions import close_names
from service.core.problems import InvalidRequest


async def known_query(request: Request) -> None:
    """Refuse a request with parameters that its endpoint does not know; raises InvalidRequest."""
    if not request.scope["query_string"]:
        return
    known = set(query_names(request.scope["route"].dependant))
    unknown = [name for name in request.query_params if name not in known]
    if unknown:
        names, others = ", ".join(map(repr, unknown)), ", ".join(sorted(known))
        raise InvalidRequest(
            f"This address has no parameter {names}; it has {others or 'none'}.",
            suggestions=[near for name in unknown for near in close_names(name, known)],
            fields=unknown,
        )


def query_names(dependant: Dependant) -> Iterator[str]:
    """Every query parameter of an endpoint and of what it depends on, those of a model one by one."""
    for field in dependant.query_params:
        annotation = field.field_info.annotation
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            yield from (info.alias or name for name, info in annotation.model_fields.items())
        else:
            yield field.alias
    for inner in dependant.dependencies:
        yield from query_names(inner)
