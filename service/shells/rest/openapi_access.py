"""Keys and rates in the OpenAPI document: which operation needs a key, and how it is refused without or too often."""

from typing import Any, Final

from service.planning.access.costs import cost_of
from service.planning.access.needs import need_of
from service.planning.access.scopes import MEANINGS
from service.shells.rest.gate import HEADER
from service.shells.rest.problems import responses

_SCHEME: Final = "ApiKey"
_DESCRIPTION: Final = (
    "Made with `rigfit keys create`. Scopes: "
    + "; ".join(f"`{scope}`: {meaning}" for scope, meaning in MEANINGS.items())
    + ". Reading needs a key only where the service is set up so."
)


def describe_access(document: dict[str, Any]) -> None:
    """Name the scheme, and at each operation the scope it needs with the refusals of who has not got it."""
    schemes = document["components"].setdefault("securitySchemes", {})
    schemes[_SCHEME] = {"type": "apiKey", "in": "header", "name": HEADER, "description": _DESCRIPTION}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            if cost_of(method.upper(), path):
                _add_problems(operation, "rate-limited")
            need = need_of(method.upper(), path)
            if need is None:
                continue
            key: dict[str, list[str]] = {_SCHEME: [need]}
            # an empty requirement says that it also goes without
            operation["security"] = [{}, key] if need == "read" else [key]
            _add_problems(operation, "unauthorized", *(() if need == "read" else ("forbidden",)))


def _add_problems(operation: dict[str, Any], *slugs: str) -> None:
    """Add kinds of problem to those that the operation names itself, status by status."""
    for status, added in responses(*slugs).items():
        own = operation["responses"].setdefault(str(status), added)
        (slug,) = next(iter(added["content"].values()))["examples"]
        for media_type, content in added["content"].items():
            examples = own["content"][media_type].setdefault("examples", {})
            if slug not in examples:
                examples[slug] = content["examples"][slug]
                own["description"] += f" {added['description']}"
    operation["responses"] = dict(sorted(operation["responses"].items()))
