"""Columns of a table of questions: the parameters of GET /plan, and what else people call them."""

import re
from collections.abc import Mapping
from typing import Any, Final, get_args

from service.contract.cells import Cell, as_typed, text_of_number
from service.contract.plan_query import PlanQuery, request_of_query
from service.contract.request import PlanRequest
from service.contract.validation import validate_as
from service.core.problems import Contradiction

QUANT: Final = "quant"
"""May stand beside the model instead of behind its name."""
_NOT_COLUMNS: Final = {"format", "field", "problems"}
COLUMNS: Final = (*(name for name in PlanQuery.model_fields if name not in _NOT_COLUMNS), QUANT)

_ALIASES: Final = {
    "model": ("model_name", "llm"),
    QUANT: ("quantisation", "quantization"),
    "gpus": ("gpu", "card", "cards", "graphics_card", "graphics_cards"),
    "context_tokens": ("context", "context_size", "ctx", "ctx_size", "n_ctx", "c"),
    "parallel": ("streams", "np"),
    "prompt_tokens": ("prompt",),
    "cached_tokens": ("cached",),
    "output_tokens": ("output",),
    "psu_rated_w": ("psu", "psu_w", "psu_watts"),
    "n_gpu_layers": ("ngl", "gpu_layers"),
    "split_mode": ("sm",),
    "tensor_split": ("ts",),
    "n_batch": ("batch_size",),
    "n_ubatch": ("ubatch_size",),
    "flash_attn": ("fa", "flash_attention"),
    "cache_type_k": ("ctk",),
    "cache_type_v": ("ctv",),
    "n_cpu_moe": ("ncmoe",),
    "override_tensor": ("ot",),
    "tensor_parallel_size": ("tp",),
    "pipeline_parallel_size": ("pp",),
    "data_parallel_size": ("dp",),
}
_COLUMN_BY_HEADER: Final = {name: name for name in COLUMNS} | {
    alias: name for name, aliases in _ALIASES.items() for alias in aliases
}
_LISTS: Final = ("tensor_split", "pp_layer_partition", "devices")


def _having(kind: type) -> frozenset[str]:
    return frozenset(name for name, field in PlanQuery.model_fields.items() if kind in get_args(field.annotation))


_WHOLE, _FLOATS, _FLAGS = _having(int), _having(float), _having(bool)


def column_of_header(header: Cell) -> str | None:
    """The column that a header names, whatever its case, spaces and hyphens; None where it names none.

    "Context (tokens)", "context-tokens" and "ctx" are all `context_tokens`.
    """
    words = re.findall(r"[a-z0-9]+", as_typed(header).casefold()) if isinstance(header, str) else []
    return _COLUMN_BY_HEADER.get("_".join(words))


def request_of_cells(cells: Mapping[str, Cell], *, decimal_comma: bool) -> PlanRequest:
    """The question that the cells of one row state, by column; empty cells are left out.

    Raises InvalidRequest that names the columns refused, and Contradiction where model and quant disagree.
    """
    stated: dict[str, Any] = {
        name: _value(name, cell, decimal_comma=decimal_comma) for name, cell in cells.items() if not is_blank(cell)
    }
    quant = stated.pop(QUANT, None)
    if quant is not None and "model" in stated:
        stated["model"] = _with_quant(stated["model"], quant)
    return request_of_query(validate_as(PlanQuery, stated))


def is_blank(cell: Cell) -> bool:
    """Whether nothing is in a cell, or only spaces."""
    return cell is None or (isinstance(cell, str) and not cell.strip())


def _value(name: str, cell: Cell, *, decimal_comma: bool) -> Any:
    text = as_typed(cell).strip()
    if name in ("gpus", "override_tensor"):
        return [text] if name == "gpus" else text.splitlines()
    if name in _LISTS:
        return text.replace(";", ",").replace(" ", "")
    if name in _FLAGS:
        return _FLAG_WORDS.get(text.casefold(), text)
    if name in _WHOLE or name in _FLOATS:
        return text_of_number(text, is_whole=name in _WHOLE, decimal_comma=decimal_comma)
    return text


# as spreadsheets in other languages show TRUE and FALSE
_FLAG_WORDS: Final = {
    "wahr": "true", "falsch": "false", "vrai": "true", "faux": "false", "verdadero": "true", "falso": "false",
    "vero": "true", "verdadeiro": "true", "waar": "true", "onwaar": "false",
}  # fmt: skip


def _with_quant(model: str, quant: str) -> str:
    name, _, stated = model.partition(":")
    if not stated or "/" in model:
        return f"{model}:{quant}"
    if stated.casefold() != quant.casefold():
        raise Contradiction(f"The model is {model!r}, but the column quant says {quant!r}.", fields=("model", QUANT))
    return f"{name}:{stated}"
