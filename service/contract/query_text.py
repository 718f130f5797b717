"""A PlanRequest as the query parameters that state it: what links to a question are made of."""

from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import urlencode

from pydantic_core import to_json

from service.contract.model_reference import ModelReference, ModelUrl, is_address
from service.contract.plan_query import cards_of_text
from service.contract.request import PlanRequest

Parameters = list[tuple[str, str]]

_NAMED_PARTS: Final = ("psu", "circuit")
# what may hold commas is repeated, the other lists are joined
_REPEATED: Final = ("override_tensor",)
_NESTED: Final = ("nvlink", "psu_feeds")


def query_of_request(request: PlanRequest) -> Parameters:
    """State a request as parameters that `request_of_query` reads back; what has its default is left out."""
    stated = request.model_dump(mode="json", exclude_defaults=True)
    rig, engine = stated.get("rig", {}), stated.get("engine", {})
    flat: dict[str, Any] = {"model": _model(request.model), "gpus": rig.pop("gpus", [])}
    flat |= stated.get("workload", {}) | rig.pop("host", {})
    for part in _NAMED_PARTS:
        flat |= {f"{part}_{field}": value for field, value in rig.pop(part, {}).items()}
    flat |= rig
    if (name := engine.pop("name", None)) is not None:
        flat["engine"] = name
    flat |= engine | (stated.get("assumptions") or {})
    return [(name, text) for name, value in flat.items() for text in _texts(name, value)]


def address_of_request(path: str, request: PlanRequest) -> str:
    """The path with the request as its query."""
    return f"{path}?{urlencode(query_of_request(request))}"


def _model(reference: ModelReference) -> Any:
    """The name or address, or the object where an address does not look like one."""
    if isinstance(reference, ModelUrl) and is_address(reference.url):
        return reference.url
    return reference if isinstance(reference, str) else reference.model_dump(mode="json")


def _texts(name: str, value: Any) -> Iterator[str]:
    """The parameters that state one value."""
    if name == "gpus":
        yield from (_text(_card(each)) for each in value)
    elif name in _REPEATED:
        yield from (_text(each) for each in value)
    elif isinstance(value, list) and name not in _NESTED:
        yield ",".join(_text(each) for each in value)
    else:
        yield _text(value)


def _card(entry: Any) -> Any:
    """A card as it is stated, or as an object where its name would be read as several."""
    return {"gpu": entry} if isinstance(entry, str) and cards_of_text(entry) != [entry] else entry


def _text(value: Any) -> str:
    """A name as it is, a whole number without its point, anything else as JSON."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, str) else to_json(value).decode()
