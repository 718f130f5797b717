"""A PlanRequest as query parameters, flat, for spreadsheets and links."""

import re
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import from_json

from service.contract.companions import OWN_DRAFT_LAYERS
from service.contract.model_reference import is_address
from service.contract.request import PlanRequest
from service.contract.validation import validate_request


class PlanQuery(BaseModel):
    """The fields of a PlanRequest, each with the meaning that it has there.

    A model may be an address. A card, draft or projector that is more than its name is an object in JSON.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    model: Annotated[str, Field(min_length=1, max_length=4100, examples=["llama-3.3-70b:Q4_K_M"])]
    gpus: Annotated[
        list[str],
        Field(
            description="Cards, repeated or separated by commas or ` + `, each a name or an object in JSON; none: the "
            "host alone.",
            examples=[["2x rtx-3090"]],
        ),
    ] = []
    nvlink: Annotated[
        str | None, Field(description="true, false, or groups of cards as JSON.", examples=["[[0,1],[2,3]]"])
    ] = None
    p2p: bool | None = None
    slots: int | None = None
    preset: Annotated[str | None, Field(description="A rig of GET /rigs.")] = None
    chassis: str | None = None
    platform: str | None = None
    psu_rated_w: float | None = None
    psu_atx_version: str | None = None
    psu_count: int | None = None
    psu_kind: str | None = None
    psu_efficiency: str | None = None
    psu_connectors: Annotated[str | None, Field(description="Cables as JSON.", examples=['{"pcie_8pin":4}'])] = None
    psu_feeds: Annotated[str | None, Field(description="Cards of each supply as JSON.", examples=["[[0],[1]]"])] = None
    psu_worst_case: bool | None = None
    circuit_volts: float | None = None
    circuit_amps: float | None = None
    circuit_continuous: bool | None = None
    circuit_shared: bool | None = None
    circuit_tariff_per_kwh: float | None = None
    context_tokens: int | None = None
    parallel: int | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    ram_bytes: int | None = None
    ram_bandwidth_bytes_per_s: float | None = None
    cpu: str | None = None
    cpu_w: float | None = None
    dimms: int | None = None
    nics: int | None = None
    engine: Annotated[str | None, Field(description="Engine name; llama.cpp where left out.")] = None
    version: str | None = None
    date: str | None = None
    tool: str | None = None
    split_mode: str | None = None
    main_gpu: int | None = None
    devices: Annotated[str | None, Field(description="Cards to use, separated by commas.", examples=["2,0"])] = None
    tensor_split: Annotated[str | None, Field(description="Shares separated by commas.", examples=["3,1"])] = None
    n_gpu_layers: Annotated[int | str | None, Field(union_mode="left_to_right")] = None
    n_batch: int | None = None
    n_ubatch: int | None = None
    flash_attn: bool | None = None
    cache_type_k: str | None = None
    cache_type_v: str | None = None
    kv_unified: bool | None = None
    swa_full: bool | None = None
    n_cpu_moe: int | None = None
    override_tensor: list[str] = []
    kv_offload: bool | None = None
    fit: bool | None = None
    draft: Annotated[str | None, Field(description='Draft model, or "mtp" for the model\'s own draft layers.')] = None
    draft_n_max: Annotated[int | None, Field(description="Tokens the draft proposes per step.")] = None
    mmproj: Annotated[str | None, Field(description="Projector for images or sound.")] = None
    mmproj_weights_bytes: Annotated[int | None, Field(description="Its bytes, where there is no file.")] = None
    tensor_parallel_size: int | None = None
    pipeline_parallel_size: int | None = None
    data_parallel_size: int | None = None
    pp_layer_partition: Annotated[str | None, Field(description="Layers per stage, separated by commas.")] = None
    gpu_memory_utilization: float | None = None
    max_model_len: int | None = None
    max_num_batched_tokens: int | None = None
    max_num_seqs: int | None = None
    kv_cache_dtype: str | None = None
    enforce_eager: bool | None = None
    cpu_offload_gib: float | None = None
    enable_expert_parallel: bool | None = None
    bandwidth_fraction: float | None = None
    fixed_s_per_device: float | None = None
    ignore_kv_reads: bool | None = None
    format: Annotated[Literal["json", "csv"], Field(description="json, or csv: a header and one row.")] = "json"
    field: Annotated[
        str | None,
        Field(
            max_length=200,
            description="One value as plain text: a column of the CSV, or a path into the JSON.",
            examples=["decode_tokens_per_s", "devices.0.total_bytes"],
        ),
    ] = None
    problems: Annotated[
        Literal["json", "text"],
        Field(
            description="json: RFC 9457 with its status; text: a sentence that starts with `#`, status 200, because a "
            "spreadsheet shows no other body."
        ),
    ] = "json"


# a plus without spaces around it is part of a name (Max+ 395)
_BETWEEN_CARDS: Final = re.compile(r"[,;\r\n]|\s\+\s")
_WORKLOAD: Final = ("context_tokens", "parallel", "prompt_tokens", "cached_tokens", "output_tokens")
_HOST: Final = ("ram_bytes", "ram_bandwidth_bytes_per_s", "cpu", "cpu_w", "dimms", "nics")
_ASSUMPTIONS: Final = ("bandwidth_fraction", "fixed_s_per_device", "ignore_kv_reads")
_RIG: Final = ("preset", "p2p", "slots", "chassis", "platform")
# parts of the rig whose fields are called after them
_NAMED_PARTS: Final = {
    "psu": ("rated_w", "atx_version", "count", "kind", "efficiency", "connectors", "feeds", "worst_case"),
    "circuit": ("volts", "amps", "continuous", "shared", "tariff_per_kwh"),
}
_JSON: Final = ("psu_connectors", "psu_feeds")
_LISTS: Final = {"tensor_split": float, "pp_layer_partition": int, "devices": int}
_ELSEWHERE: Final = {
    *_WORKLOAD, *_HOST, *_ASSUMPTIONS, *_RIG, "model", "gpus", "nvlink", "engine", "format", "field", "problems",
    "draft", "draft_n_max", "mmproj", "mmproj_weights_bytes",
    *(f"{part}_{field}" for part, fields in _NAMED_PARTS.items() for field in fields),
}  # fmt: skip


def request_of_query(query: PlanQuery) -> PlanRequest:
    """State a flat query as a PlanRequest; raises as `validate_request` does."""
    given = query.model_dump(exclude_unset=True)
    request: dict[str, Any] = {
        "model": _name_or_object(query.model),
        "rig": _rig(query, given),
        "workload": _part(given, _WORKLOAD),
        "engine": _engine(query, given),
    }
    if assumptions := _part(given, _ASSUMPTIONS):
        request["assumptions"] = assumptions
    return validate_request(request)


def _rig(query: PlanQuery, given: dict[str, Any]) -> dict[str, Any]:
    rig: dict[str, Any] = {"gpus": [card for entry in query.gpus for card in cards_of_text(entry)]} | _part(given, _RIG)
    if query.nvlink is not None:
        rig["nvlink"] = _json_or_text(query.nvlink)
    parts = {"host": _part(given, _HOST)}
    given = given | {name: _json_or_text(given[name]) for name in _JSON if given.get(name) is not None}
    for part, fields in _NAMED_PARTS.items():
        parts[part] = {field: given[name] for field in fields if (name := f"{part}_{field}") in given}
    return rig | {name: part for name, part in parts.items() if part}


def _engine(query: PlanQuery, given: dict[str, Any]) -> dict[str, Any]:
    engine: dict[str, Any] = {name: value for name, value in given.items() if name not in _ELSEWHERE}
    if query.engine is not None:
        engine["name"] = query.engine
    for name, kind in _LISTS.items():
        if engine.get(name) is not None:
            engine[name] = [_number(part, kind) for part in engine[name].split(",")]
    return engine | _companions(query)


def _companions(query: PlanQuery) -> dict[str, Any]:
    """The draft and the projector as objects, where they are stated."""
    draft = {"spec_type": "draft-mtp"} if query.draft == OWN_DRAFT_LAYERS else _model_or_object(query.draft)
    stated = {
        "draft": draft | _stated({"n_max": query.draft_n_max}),
        "mmproj": _model_or_object(query.mmproj) | _stated({"weights_bytes": query.mmproj_weights_bytes}),
    }
    return {field: part for field, part in stated.items() if part}


def cards_of_text(entry: str) -> list[Any]:
    """The cards of one parameter: an object in JSON, or names between commas, pluses, semicolons or line ends."""
    if entry.lstrip().startswith("{"):
        return [_json_or_text(entry)]
    return [name.strip() for name in _BETWEEN_CARDS.split(entry) if name.strip()]


def _name_or_object(text: str) -> Any:
    """A model by its name, its address or the JSON object of a request."""
    if text.lstrip().startswith("{"):
        return _json_or_text(text)
    return {"url": text} if is_address(text) else text


def _model_or_object(text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    stated = _name_or_object(text)
    return stated if isinstance(stated, dict) and "url" not in stated else {"model": stated}


def _stated(part: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in part.items() if value is not None}


def _part(given: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: given[name] for name in names if name in given}


def _json_or_text(text: str) -> Any:
    """Read JSON; what is none stays as it is, for the contract to refuse."""
    try:
        return from_json(text)
    except ValueError:
        return text


def _number(text: str, kind: type[int] | type[float]) -> float | str:
    """Read one number of a list; what is none stays as it is, for the contract to refuse."""
    try:
        return kind(text)
    except ValueError:
        return text
