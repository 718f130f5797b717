"""A PlanRequest as query parameters, flat, for spreadsheets and links."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from service.contract.companions import OWN_DRAFT_LAYERS
from service.contract.request import PlanRequest
from service.contract.validation import validate_request


class PlanQuery(BaseModel):
    """The fields of a PlanRequest that a flat query can state; each means what it means there."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    model: Annotated[str, Field(min_length=1, max_length=400, examples=["llama-3.3-70b:Q4_K_M"])]
    gpus: Annotated[
        list[str],
        Field(description="Cards, repeated or separated by commas; none: the host alone.", examples=[["2x rtx-3090"]]),
    ] = []
    context_tokens: int | None = None
    parallel: int | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    ram_bytes: int | None = None
    ram_bandwidth_bytes_per_s: float | None = None
    cpu: str | None = None
    engine: Annotated[str | None, Field(description="Engine name; llama.cpp where left out.")] = None
    version: str | None = None
    date: str | None = None
    tool: str | None = None
    split_mode: str | None = None
    main_gpu: int | None = None
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
    bandwidth_fraction: float | None = None
    fixed_s_per_device: float | None = None
    ignore_kv_reads: bool | None = None
    format: Annotated[Literal["json", "csv"], Field(description="json, or csv: a header and one row.")] = "json"


_WORKLOAD = ("context_tokens", "parallel", "prompt_tokens", "cached_tokens", "output_tokens")
_HOST = ("ram_bytes", "ram_bandwidth_bytes_per_s", "cpu")
_ASSUMPTIONS = ("bandwidth_fraction", "fixed_s_per_device", "ignore_kv_reads")
_COMPANIONS = ("draft", "draft_n_max", "mmproj", "mmproj_weights_bytes")
_ELSEWHERE = {*_WORKLOAD, *_HOST, *_ASSUMPTIONS, *_COMPANIONS, "model", "gpus", "engine", "tensor_split", "format"}


def request_of_query(query: PlanQuery) -> PlanRequest:
    """State a flat query as a PlanRequest; raises as `validate_request` does."""
    given = query.model_dump(exclude_unset=True)
    engine: dict[str, Any] = {name: value for name, value in given.items() if name not in _ELSEWHERE}
    if query.engine is not None:
        engine["name"] = query.engine
    if query.tensor_split is not None:
        engine["tensor_split"] = [_share(part) for part in query.tensor_split.split(",")]
    engine |= _companions(query)
    request: dict[str, Any] = {
        "model": query.model,
        "rig": {
            "gpus": [name.strip() for part in query.gpus for name in part.split(",") if name.strip()],
            "host": _part(given, _HOST),
        },
        "workload": _part(given, _WORKLOAD),
        "engine": engine,
    }
    if assumptions := _part(given, _ASSUMPTIONS):
        request["assumptions"] = assumptions
    return validate_request(request)


def _companions(query: PlanQuery) -> dict[str, Any]:
    """The draft and the projector as objects, where they are stated."""
    draft: dict[str, Any] = {"spec_type": "draft-mtp"} if query.draft == OWN_DRAFT_LAYERS else {"model": query.draft}
    mmproj = {"model": query.mmproj, "weights_bytes": query.mmproj_weights_bytes}
    stated = {"draft": _stated(draft | {"n_max": query.draft_n_max}), "mmproj": _stated(mmproj)}
    return {field: part for field, part in stated.items() if part}


def _stated(part: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in part.items() if value is not None}


def _part(given: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: given[name] for name in names if name in given}


def _share(text: str) -> float | str:
    """Read one share; what is no number stays as it is, for the contract to refuse."""
    try:
        return float(text)
    except ValueError:
        return text
