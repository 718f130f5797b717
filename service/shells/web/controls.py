"""The fields of a request as controls of a form, derived from the contract: a field added there is a control here."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal, TypeAlias

from pydantic import BaseModel

from service.contract.engine import LlamaCppEngine, VllmEngine
from service.contract.request import AssumptionsRequest, WorkloadRequest
from service.contract.rig import CircuitRequest, GpuRequest, HostRequest, InlineGpu, PsuRequest, RigRequest
from service.core.units import GIB

Kind: TypeAlias = Literal["number", "text", "choice", "lines"]
Shape: TypeAlias = Mapping[str, Any]

# what the end of a name says: the unit that people state it in, and how much of the contract's that is
_UNITS: Final = (
    ("_bytes_per_s", "GB/s", 1e9),
    ("_bytes", "GiB", GIB),
    ("_flops", "TFLOPS", 1e12),
    ("_s_per_device", "ms", 1e-3),
    ("_gib", "GiB", 1),
    ("_tokens", "tokens", 1),
    ("_w", "W", 1),
    ("volts", "V", 1),
    ("amps", "A", 1),
)
_LABELS: Final = {
    # workload
    "cached_tokens": "In the cache", "output_tokens": "Output", "parallel": "Streams at once",
    "prompt_tokens": "Prompt",
    # machine
    "chassis": "Chassis", "circuit_amps": "Breaker", "circuit_continuous": "Runs for hours",
    "circuit_shared": "Shared circuit", "circuit_tariff_per_kwh": "Price of a kWh", "circuit_volts": "Wall voltage",
    "cpu": "Processor", "cpu_w": "Its power", "dimms": "Memory modules", "nics": "Network cards", "nvlink": "NVLink",
    "p2p": "Peer-to-peer access", "platform": "Socket or chipset", "preset": "Known rig",
    "psu_atx_version": "ATX version", "psu_connectors": "Cables for cards", "psu_count": "Power supplies",
    "psu_efficiency": "80 PLUS class", "psu_feeds": "Cards of each supply", "psu_kind": "Kind of supply",
    "psu_rated_w": "Power supply", "psu_worst_case": "Worst case steps", "ram_bandwidth_bytes_per_s": "Its bandwidth",
    "ram_bytes": "Main memory", "slots": "Slots for cards",
    # cards
    "backend": "Backend", "bandwidth_bytes_per_s": "Bandwidth", "behind": "Slot hangs on",
    "compute_capability": "Compute capability", "fp16_tensor_flops": "FP16 rate", "free_bytes": "Free memory",
    "numa_node": "NUMA node", "pcie_gen": "PCIe generation", "pcie_lanes": "PCIe lanes", "power_limit_w": "Power limit",
    "tdp_w": "Board power", "vram_bytes": "Memory",
    # assumptions
    "bandwidth_fraction": "Share of bandwidth reached", "fixed_s_per_device": "Fixed time per card and token",
    "ignore_kv_reads": "Reads of the KV cache",
}  # fmt: skip
_SWITCHES: Final = {"ignore_kv_reads": ("counted", "left out")}
_FLAG = re.compile(r" ?\((-{1,2}[a-z][\w-]*)\)")
# how JSON states nothing
_NOTHING = re.compile(r"\bnull\b")
# what the page states in controls of its own
_ELSEWHERE: Final = {"name", "context_tokens"}
_RIG_PARTS: Final = {"gpus", "host", "psu", "circuit"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """One field: factor is how much of the contract's unit one of `unit` is; options are values with their words."""

    name: str
    label: str
    kind: Kind
    flag: str | None = None
    unit: str | None = None
    factor: float = 1
    options: Sequence[tuple[str, str]] = ()
    default: str = ""
    description: str = ""
    whole: bool = False
    least: float | None = None


@cache
def workload_controls() -> tuple[Control, ...]:
    """What will be asked of the model, besides the context."""
    return _controls(WorkloadRequest)


@cache
def machine_controls() -> tuple[Control, ...]:
    """What surrounds the cards."""
    return (
        *_controls(HostRequest),
        *_controls(PsuRequest, prefix="psu_"),
        *_controls(CircuitRequest, prefix="circuit_"),
        *(control for control in _controls(RigRequest) if control.name not in _RIG_PARTS),
    )


@cache
def engine_controls() -> Mapping[str, tuple[Control, ...]]:
    """The settings of each engine, by its name."""
    return {
        engine.model_json_schema()["properties"]["name"]["const"]: _controls(engine)
        for engine in (LlamaCppEngine, VllmEngine)
    }


@cache
def assumption_controls() -> tuple[Control, ...]:
    """Constants of the speed model that can be replaced."""
    return _controls(AssumptionsRequest)


@cache
def card_controls() -> tuple[Control, ...]:
    """What may differ from the catalogue on a card."""
    return tuple(control for control in _controls(GpuRequest) if control.name not in {"gpu", "count"})


@cache
def own_card_controls() -> tuple[Control, ...]:
    """The figures of a card that is in no catalogue, its name aside."""
    return _controls(InlineGpu)


def _controls(model: type[BaseModel], prefix: str = "") -> tuple[Control, ...]:
    schema = model.model_json_schema()
    shapes = ((name, shape) for name, shape in schema["properties"].items() if name not in _ELSEWHERE)
    return tuple(_control(f"{prefix}{name}", shape) for name, shape in shapes)


def _control(name: str, shape: Shape) -> Control:
    variants = [variant for variant in shape.get("anyOf", (shape,)) if variant.get("type") != "null"]
    kind, options = _kind(name, variants)
    description = shape.get("description", "")
    flag = _FLAG.search(description)
    unit, factor = next(((unit, factor) for end, unit, factor in _UNITS if name.endswith(end)), (None, 1))
    default = _text(shape.get("default"))
    return Control(
        name=name,
        label=_LABELS.get(name, name.replace("_", " ")),
        kind=kind,
        flag=flag.group(1) if flag else None,
        unit=unit,
        factor=factor,
        options=_with_default(options, default),
        default=default,
        description=_NOTHING.sub("left empty", _FLAG.sub("", description)),
        whole=kind == "number" and variants[0]["type"] == "integer" and factor == 1,
        least=variants[0].get("minimum", 0) if kind == "number" else None,
    )


def _kind(name: str, variants: Sequence[Shape]) -> tuple[Kind, Sequence[tuple[str, str]]]:
    """How values are entered, with the words of those that there are to choose from."""
    shape = variants[0]
    if shape.get("type") == "boolean":
        off, on = _SWITCHES.get(name, ("off", "on"))
        return "choice", (("true", on), ("false", off))
    if len(variants) == 1 and (values := shape.get("enum")):
        return "choice", [(value, value) for value in values]
    if shape.get("type") == "array":
        return ("lines" if shape["items"].get("type") == "string" else "text"), ()
    number = len(variants) == 1 and shape.get("type") in {"integer", "number"}
    return ("number" if number else "text"), ()


def _with_default(options: Sequence[tuple[str, str]], default: str) -> Sequence[tuple[str, str]]:
    """The choices, the default first and stated by leaving the field out."""
    if not options:
        return ()
    if not default:
        return [("", "automatic"), *options]
    return sorted(
        (
            ("" if value == default else value, f"{words} (default)" if value == default else words)
            for value, words in options
        ),
        key=lambda option: bool(option[0]),
    )


def _text(default: object) -> str:
    if default is None or isinstance(default, list):
        return ""
    return str(default).lower() if isinstance(default, bool) else str(default)
