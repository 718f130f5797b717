"""Addresses of questions that differ from the one asked in one thing: what a click on the page asks."""

from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import urlencode

from pydantic_core import from_json, to_json

from service.contract.engine import LlamaCppEngine, VllmEngine
from service.contract.problem import Problem
from service.contract.query_text import address_of_request
from service.contract.request import PlanRequest
from service.contract.validation import validate_request
from service.core.problems import PlanProblem
from service.shells.web.card_rows import card_row
from service.shells.web.question import Question, place_of

PATH: Final = "/"
# what an alternative keeps from the question: it is about another way to run the same
_KEPT: Final = {"name", "version", "date", "draft", "mmproj", "fit"}
_ENGINE_FIELDS: Final = {
    name: frozenset(engine.model_fields) - _KEPT
    for name, engine in (("llama.cpp", LlamaCppEngine), ("vllm", VllmEngine))
}


def suggested_questions(question: Question, refused: Problem) -> Iterator[tuple[str, str]]:
    """Each suggestion of a problem with the address of the question that takes it up."""
    name, _, row = place_of(refused.errors[0].pointer if refused.errors else "").partition("/")
    for suggestion in refused.suggestions:
        if row:
            yield suggestion, _with_card(question, int(row), suggestion)
        elif name in {"model", "engine", "draft", "mmproj"}:
            yield suggestion, _with(question, {name: [suggestion]})


def adopted_question(request: PlanRequest, plan: Mapping[str, Any], alternative: Mapping[str, Any]) -> str | None:
    """Address of the question whose answer is an alternative; None where the contract has no words for it."""
    engine, chosen = alternative["engine"], plan["engine"]
    stated = request.engine.model_dump(mode="json", exclude_defaults=True)
    if engine["name"] != request.engine.name:
        stated, chosen = {"name": engine["name"]}, {}
    fields = _ENGINE_FIELDS.get(engine["name"], frozenset())
    changed = {name: value for name, value in engine.items() if name in fields and value != chosen.get(name)}
    asked = request.model_dump(mode="json", exclude_defaults=True) | {"engine": _stated(stated | changed)}
    try:
        return address_of_request(PATH, validate_request(asked))
    except PlanProblem:
        return None


def _stated(engine: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in engine.items() if value is not None}


def _with_card(question: Question, index: int, name: str) -> str:
    """The question with another card in one place, in the same number and with the same figures."""
    cards = list(question.values("gpus"))
    if index < len(cards):
        cards[index] = _renamed(cards[index], name)
    return _with(question, {"gpus": cards})


def _renamed(parameter: str, name: str) -> str:
    row = card_row(parameter)
    if not parameter.startswith("{"):
        return name if row.count == "1" else f"{row.count}x {name}"
    return to_json(from_json(parameter) | {"gpu": name}).decode()


def _with(question: Question, changed: Mapping[str, list[str]]) -> str:
    parameters = {**question.parameters, **changed}
    return f"{PATH}?{urlencode(parameters, doseq=True)}"
