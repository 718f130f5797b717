"""One value of a plan by its name, for a single cell of a spreadsheet."""

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Final

from pydantic import JsonValue

from service.contract.plan import Plan
from service.contract.problem import FieldError
from service.contract.validation import RefusedFields
from service.planning.row import row_of_plan

_SUGGESTIONS: Final = 5
_SHOWN: Final = 40


def text_of_field(plan: Plan, field: str) -> str:
    """The value that a column of the flat row, or else a path into the plan, names; empty where the plan has none.

    A path joins names and positions with points: `devices.0.total_bytes`.
    Raises RefusedFields, with the closest names, where it names no single value.
    """
    row = row_of_plan(plan)
    if field in row:
        return _text(row[field])
    paths = dict(_values("", plan.model_dump(mode="json")))
    if field in paths:
        return _text(paths[field])
    known = [*row, *paths]
    below = [name for name in paths if field and name.startswith(f"{field}.")]
    close = below or get_close_matches(field, known, n=_SUGGESTIONS, cutoff=0.5)
    shown = ", ".join(close[:_SHOWN])
    hint = f"; did you mean {shown}?" if close else f"; a plan has {', '.join(row)} and paths into its JSON"
    refused = RefusedFields(
        [FieldError(pointer="/field", message=f"{field[:80]!r} is no single value of a plan{hint}")]
    )
    refused.suggestions = tuple(close[:_SHOWN])
    raise refused


def _values(path: str, value: JsonValue) -> Iterator[tuple[str, JsonValue]]:
    """Every single value below `value`, with its path."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _values(f"{path}.{name}" if path else name, inner)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _values(f"{path}.{index}", inner)
    else:
        yield path, value


def _text(value: JsonValue) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)
