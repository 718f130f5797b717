"""A form for a whole rig, and the question that a filled-in form states."""

from collections.abc import Mapping
from typing import Any, Final

from service.contract.model_reference import is_address
from service.contract.request import PlanRequest
from service.contract.validation import validate_request
from service.core.problems import PlanProblem
from service.core.units import GIB
from service.planning.planner import Planner
from service.shells.slack.blocks import Message
from service.shells.slack.grammar import Unread, read_text
from service.shells.slack.names import Names
from service.shells.slack.parts import Block, within

FORM: Final = "rigfit_form"
MODEL_FIELD: Final = "model"
MOST_OPTIONS: Final = 100
_MOST_OPTION_TEXT: Final = 75
_ENGINES: Final = {"llama.cpp": "llama.cpp", "vllm": "vLLM"}
# fields of the form with the part of the request and the factor from what people write to the contract's unit
_NUMBERS: Final = {
    "context_tokens": ("workload", "context_tokens", 1),
    "parallel": ("workload", "parallel", 1),
    "prompt_tokens": ("workload", "prompt_tokens", 1),
    "psu_w": ("psu", "rated_w", 1),
    "ram_gib": ("host", "ram_bytes", GIB),
}


class RefusedForm(Exception):
    """A form with fields that cannot be meant; `errors` says why by field."""

    def __init__(self, errors: Mapping[str, str]) -> None:
        super().__init__("; ".join(errors.values()))
        self.errors = dict(errors)


def form_view(channel: str) -> Block:
    """The form; `channel` is where its answer may be shared."""
    blocks = [
        _field(
            MODEL_FIELD, "Model",
            {"type": "external_select", "min_query_length": 1, "placeholder": _plain("A name of the catalogue")},
        ),
        _text("cards", "Cards", "2x rtx-3090, rtx-4090"),
        _number("context_tokens", "Context in tokens (empty: the largest that fits)"),
        _number("parallel", "Streams at once"),
        _number("prompt_tokens", "Tokens of the prompt"),
        _field(
            "engine", "Engine",
            {
                "type": "static_select",
                "options": [_option(label, name) for name, label in _ENGINES.items()],
                "initial_option": _option(_ENGINES["llama.cpp"], "llama.cpp"),
            },
        ),
        _number("psu_w", "Power supply in watts"),
        _number("ram_gib", "Main memory in GiB"),
    ]  # fmt: skip
    return {
        "type": "modal", "callback_id": FORM, "private_metadata": channel, "title": _plain("Rigfit"),
        "submit": _plain("Plan"), "close": _plain("Close"), "blocks": blocks,
    }  # fmt: skip


def message_view(message: Message, channel: str) -> Block:
    """An answer in the place of the form."""
    return {
        "type": "modal", "private_metadata": channel, "title": _plain("Rigfit"), "close": _plain("Close"),
        "blocks": within(message.blocks),
    }  # fmt: skip


def model_options(planner: Planner, typed: str) -> list[Block]:
    """Models whose name has every word that was typed; an address is a model as well."""
    found = [summary.name for summary in planner.catalogues.models.search(typed.replace("-", " "))]
    names = [typed] if is_address(typed) else found
    return [_option(name, name) for name in names if len(name) <= _MOST_OPTION_TEXT][:MOST_OPTIONS]


def form_request(values: Mapping[str, Mapping[str, Any]], names: Names) -> PlanRequest:
    """The question that a form states; raises RefusedForm."""
    said = {block: _value(action) for block, actions in values.items() for action in actions.values()}
    request = _cards(said, names)
    if engine := said.get("engine"):
        request["engine"] = {**request["engine"], "name": engine}
    errors: dict[str, str] = {}
    for name, (part, field, factor) in _NUMBERS.items():
        if text := said.get(name):
            try:
                place = request["workload"] if part == "workload" else request["rig"].setdefault(part, {})
                place[field] = int(text) * factor
            except ValueError:
                errors[name] = "Write a whole number."
    if errors:
        raise RefusedForm(errors)
    try:
        return validate_request(request)
    except PlanProblem as refused:
        raise RefusedForm({_place(refused): refused.detail}) from None


def _cards(said: Mapping[str, str], names: Names) -> dict[str, Any]:
    """Model and cards, read as a line says them; raises RefusedForm."""
    model, cards = said.get(MODEL_FIELD, ""), said.get("cards", "")
    if not model:
        raise RefusedForm({MODEL_FIELD: "Choose a model."})
    try:
        request = read_text(f"{model} on {cards or 'cpu only'}", names)
    except Unread as unread:
        raise RefusedForm({"cards": unread.refusal.detail[:1000]}) from None
    stated = request.model_dump(mode="json", exclude_defaults=True)
    return {"model": stated["model"], **{part: stated.get(part, {}) for part in ("rig", "workload", "engine")}}


def _place(refused: PlanProblem) -> str:
    """The field of the form that a refusal is about."""
    pointers = " ".join(error.pointer for error in getattr(refused, "errors", ()))
    return next((name for name, (_, field, _) in _NUMBERS.items() if field in pointers), "cards")


def _value(action: Mapping[str, Any]) -> str:
    option = action.get("selected_option") or {}
    return str(option.get("value") or action.get("value") or "").strip()


def _field(name: str, label: str, element: Block, *, optional: bool = False) -> Block:
    return {
        "type": "input", "block_id": name, "label": _plain(label), "optional": optional,
        "element": {**element, "action_id": name},
    }  # fmt: skip


def _text(name: str, label: str, placeholder: str) -> Block:
    element = {"type": "plain_text_input", "placeholder": _plain(placeholder)}
    return _field(name, f"{label} (empty: the processor alone)", element, optional=True)


def _number(name: str, label: str) -> Block:
    return _field(
        name, label, {"type": "number_input", "is_decimal_allowed": False, "min_value": "1"}, optional=True
    )  # fmt: skip


def _plain(text: str) -> Block:
    return {"type": "plain_text", "text": text}


def _option(text: str, value: str) -> Block:
    return {"text": _plain(text), "value": value}
