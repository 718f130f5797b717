"""The cards of a question as rows of its form."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json

from service.catalog.gpu_names import parse_count
from service.core.problems import PlanProblem


@dataclass(frozen=True, slots=True, kw_only=True)
class CardRow:
    """One entry of `gpus`: the parameter as it stands, how many, which card, and its figures by field.

    own: whether the figures describe a card that is in no catalogue.
    """

    parameter: str
    count: str
    name: str
    figures: Mapping[str, str]
    own: bool = False


BLANK = CardRow(parameter="", count="1", name="", figures={})
BLANK_OWN = CardRow(parameter="", count="1", name="", figures={}, own=True)


def card_row(parameter: str) -> CardRow:
    """Read one parameter: a name with its count, or an object; what is neither is shown as a name."""
    stated = _object(parameter)
    if stated is None:
        number, text = _counted(parameter)
        return CardRow(parameter=parameter, count=str(number), name=text, figures={})
    card = stated.pop("gpu", "")
    count = _text(stated.pop("count", 1))
    if isinstance(card, dict):
        name = _text(card.pop("name", ""))
        return CardRow(parameter=parameter, count=count, name=name, figures=_texts(card | stated), own=True)
    return CardRow(parameter=parameter, count=count, name=_text(card), figures=_texts(stated))


def _object(parameter: str) -> dict[str, Any] | None:
    if not parameter.startswith("{"):
        return None
    try:
        stated = from_json(parameter)
    except ValueError:
        return None
    return stated if isinstance(stated, dict) else None


def _counted(text: str) -> tuple[int, str]:
    try:
        return parse_count(text)
    except PlanProblem:
        return 1, text


def _texts(stated: Mapping[str, Any]) -> dict[str, str]:
    return {name: _text(value) for name, value in stated.items() if value is not None}


def _text(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
