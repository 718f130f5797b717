"""Every quantity carries its unit as the end of its name."""

import dataclasses
import importlib
import inspect
import pkgutil
import re
import types
import typing

import pytest
from pydantic import BaseModel

import service.contract
import service.core

UNIT = re.compile(
    r"(^|_)(bytes|s|w|tokens|tokens_per_s|bytes_per_s|ops_per_s|flops|fraction|volts|amps|gib|s_per_device)$"
)
PER_TOKEN = re.compile(r"_(bytes|flops|s)_per_token$")
PHYSICAL = {
    "bandwidth", "cached", "duration", "free", "headroom", "latency", "memory", "overhead", "power", "prompt", "ram",
    "shortfall", "speed", "time", "total", "usable", "vram", "weights",
}  # fmt: skip
# counts, indices and ratios of the contract, and names that llama.cpp and vLLM fixed
DIMENSIONLESS = {
    "active_parameters", "block_size", "cards", "circuit_tariff_per_kwh", "contexts", "count", "data_parallel_size",
    "decode_tokens_per_s_per_price", "decode_tokens_per_s_per_w", "devices", "dimms", "draft_layers", "draft_n_max",
    "eps_8pin", "experts", "feeds", "gpu_memory_utilization", "high", "idle_cost_per_year", "index", "kinds",
    "kinds_left_out", "layers", "limit", "low", "main_gpu", "max_cards", "max_concurrency", "max_kinds",
    "max_model_len", "max_num_seqs", "max_price", "max_slots", "meetings_per_token", "mid", "min_cards", "n_batch",
    "n_cpu_moe", "n_ctx", "n_ctx_seq", "n_gpu_layers", "n_max", "n_ubatch", "nics", "not_needed", "not_reached",
    "num_gpu_blocks", "numa_node", "nvlink", "over_limit", "pairs", "parallel", "parameters", "parts", "pcie_16pin",
    "pcie_8pin", "pcie_gen", "pcie_lanes", "pipeline_parallel_size", "planned", "pp_layer_partition", "price", "prices",
    "psu_count", "recurrent_layers", "refused", "rigs", "row", "sched_copies", "short", "slots", "status",
    "tariff_per_kwh", "tensor_count", "tensor_parallel_size", "tensor_split", "too_slow", "too_small", "unfit", "value",
    "windowed_layers",
}  # fmt: skip
# of measurements and their corrections
DIMENSIONLESS |= {
    "accepted",
    "factor",
    "known",
    "limit",
    "line",
    "modelled",
    "offset",
    "quarantined",
    "stddev",
    "unread_count",
}
# of batches
DIMENSIONLESS |= {"restarts", "rows", "rows_done", "rows_refused", "workers"}
# of drafts, and of what spills
DIMENSIONLESS |= {"best_gain", "best_n_max", "gain", "slowdown"}


# cards are sent in the units of hardware_db's files, under their keys
UNIT_OF_FILES = re.compile(r"_(mib|gb_per_s|tflops|tops)$")
DIMENSIONLESS |= {"before_id", "devices_per_board", "id", "next_before_id", "nvlink_max_gpus"}


def modules(package: types.ModuleType) -> list[str]:
    """Names of all modules below a package."""
    return [module.name for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]


def numeric_fields(module_name: str) -> dict[str, str]:
    """Name of every numeric field of the module's dataclasses and pydantic models, by class and name."""
    found: dict[str, str] = {}
    for name, kind in vars(importlib.import_module(module_name)).items():
        if not inspect.isclass(kind) or kind.__module__ != module_name:
            continue
        if dataclasses.is_dataclass(kind) or issubclass(kind, BaseModel):
            hints = typing.get_type_hints(kind)
            found |= {f"{name}.{field}": field for field, hint in hints.items() if is_numeric(hint)}
    return {place: field for place, field in found.items() if not field.startswith("_")}


def is_numeric(hint: object) -> bool:
    """True for numbers, optional numbers and sequences of numbers."""
    if hint in (int, float):
        return True
    if typing.get_origin(hint) in (typing.Union, types.UnionType, tuple, list):
        return any(is_numeric(part) for part in typing.get_args(hint))
    return False


def has_unit(name: str) -> bool:
    """True where the name ends in a unit."""
    return bool(UNIT.search(name) or PER_TOKEN.search(name) or UNIT_OF_FILES.search(name))


@pytest.mark.parametrize("module_name", modules(service.contract))
def test_quantities_of_the_contract_carry_their_unit(module_name: str) -> None:
    """What other programs read and write leaves no doubt about bytes, seconds and tokens."""
    unclear = {place for place, field in numeric_fields(module_name).items() if not has_unit(field)}
    assert {place for place in unclear if place.partition(".")[2] not in DIMENSIONLESS} == set()


@pytest.mark.parametrize("module_name", modules(service.core))
def test_physical_quantities_of_the_core_carry_their_unit(module_name: str) -> None:
    """A field of a fact or an answer that speaks of memory, time or power says in what it is counted."""
    physical = {
        place: field for place, field in numeric_fields(module_name).items() if PHYSICAL & set(field.split("_"))
    }
    assert {place for place, field in physical.items() if not has_unit(field) and field not in DIMENSIONLESS} == set()
