"""The question in a page's address: its parameters as the form shows them, and the request they state."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import get_origin

from pydantic import ValidationError
from pydantic_core import to_json

from service.contract.plan_query import PlanQuery, cards_of_text, request_of_query
from service.contract.query_text import Parameters, query_of_request
from service.contract.request import EXAMPLE_REQUEST, PlanRequest
from service.contract.validation import refusal, validate_request

_LISTS = {name for name, field in PlanQuery.model_fields.items() if get_origin(field.annotation) is list}
_PREFIXED_PARTS = ("psu", "circuit")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What an address asks.

    parameters: as they stand there, one card in each of `gpus`, nothing that is empty. example: whether the address
    asks nothing and this is shown instead.
    """

    parameters: Mapping[str, Sequence[str]]
    example: bool = False

    def value(self, name: str) -> str:
        """The text of a parameter, "" where it is not stated."""
        return next(iter(self.values(name)), "")

    def values(self, name: str) -> Sequence[str]:
        """The texts of a parameter that may be repeated."""
        return self.parameters.get(name, ())

    def request(self) -> PlanRequest:
        """The request that the parameters state; raises PlanProblem where they state none."""
        given = {name: list(values) if name in _LISTS else values[-1] for name, values in self.parameters.items()}
        try:
            return request_of_query(PlanQuery.model_validate(given))
        except ValidationError as refused:
            raise refusal(refused, given) from None


def read_question(pairs: Parameters) -> Question:
    """Read the parameters of an address: those without a value say nothing, and without any an example is shown."""
    if not pairs:
        return Question(parameters=_by_name(query_of_request(validate_request(EXAMPLE_REQUEST))), example=True)
    return Question(parameters=_by_name([(name, value) for name, value in pairs if value]))


def parameter_of(pointer: str) -> str:
    """The parameter that a JSON pointer into the request is about: "/rig/psu/rated_w" is "psu_rated_w"."""
    part, *inside = pointer.removeprefix("/").split("/")
    if part == "rig" and inside:
        part, *inside = inside
    if part in _PREFIXED_PARTS and inside:
        return f"{part}_{inside[0]}"
    if part == "engine":
        return inside[0] if inside and inside[0] != "name" else "engine"
    return inside[0] if part in {"host", "workload", "assumptions"} and inside else part


def place_of(pointer: str) -> str:
    """The control that a JSON pointer is about: a parameter, of cards with the row, as in "gpus/1"."""
    name = parameter_of(pointer)
    row = pointer.partition("/gpus/")[2].partition("/")[0]
    return f"{name}/{row}" if name == "gpus" and row.isdecimal() else name


def _by_name(pairs: Parameters) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in pairs:
        found.setdefault(name, []).append(value)
    if "gpus" in found:
        cards = (card for entry in found["gpus"] for card in cards_of_text(entry))
        found["gpus"] = [card if isinstance(card, str) else to_json(card).decode() for card in cards]
    return found
