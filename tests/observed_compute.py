"""Compute buffers of public llama.cpp logs: the question each row stands for, and what is known about differences."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import Any

from service.core.architectures.hparams import read_hparams
from service.core.engines.llamacpp.compute import ComputeQuestion, compute_buffers
from service.core.engines.llamacpp.context import resolve_context
from service.core.engines.llamacpp.overrides import parse_override_tensor, resolve_overrides
from service.core.engines.llamacpp.slots import SlotMap, resolve_n_gpu_layers, split_slots
from service.core.engines.llamacpp.versions import version_rules
from service.core.engines.llamacpp.weights import weight_layout
from service.core.tensor_types import TENSOR_TYPE_BY_NAME
from service.core.types import Backend, Model, Tensor
from service.core.units import MIB
from tests.models import load_model
from tests.observed_logs import ObservedRow, observed_rows

# the catalogue's model of the same architecture and shape, by the name a log gives
MODELS = {
    "DeepSeek-R1-Distill-Qwen-7B Q4_K_M": "qwen2.5-7b:Q4_K_M",
    "GLM-5.2 UD-Q4_K_XL": "glm-5:Q4_K_M",
    "Meta Llama 3.1 8B Instruct": "llama-3.1-8b:Q4_0",
    "Meta-Llama-3-8B-Instruct": "llama-3-8b:Q4_K_M",
    "MiniMax-M2.1-PRISM IQ4_NL": "minimax-m2.5:IQ4_XS",
    "Mistral-7B Q5_K_M": "mistral-7b:Q5_K_M",
    "Mistral-7B-Instruct-v0.1 Q4_K_M": "mistral-7b:Q4_K_M",
    "Nemotron 3 Ultra 550B": "nemotron-3-ultra-550b-a55b:Q4_K_M",
    "Qwen3 235B A22B": "qwen3-235b-a22b:Q8_0",
    "Qwen3-235B-A22B-128K": "qwen3-235b-a22b:Q6_K",
    "Qwen3-Coder-30B-A3B-Instruct": "qwen3-30b-a3b:Q4_K_M",
    "Qwen3-Coder-480B-A35B UD-Q6_K_XL": "qwen3-coder-480b-a35b:Q6_K",
    "Qwen3-Next-80B-A3B-Instruct": "qwen3-next-80b-a3b:Q4_K_M",
    "Qwen3.5-122B-A10B": "qwen3.5-122b-a10b:Q4_K_M",
    "Qwen3.5-35B-A3B Q4_K_M": "qwen3.5-35b-a3b:Q4_K_M",
    "Qwen3.6-27B + MTP head + mmproj": "qwen3.6-27b-mtp:Q4_K_M",
    "Qwen3.6-35B-A3B": "qwen3.6-35b-a3b:Q4_K_M",
    "dolphin-mixtral 8x7B": "mixtral-8x7b:Q5_K_M",
}

# how a log's file stores its matrices where that differs from the catalogue's: part of the name to type, first match
STORED_AS = {
    "Qwen3.5-122B-A10B": {"down_exps": "q5_K", "_exps": "q4_K", "output.weight": "q6_K", "": "q8_0"},
    "MiniMax-M2.1-PRISM IQ4_NL": {"_exps": "iq4_nl"},
}

_EXPERTS_OF = r"blk\.({})\.ffn_.*_exps\.weight=CPU"

# what a log says in words only; a year without a month is made a day before masks were F16 where the host's buffer
# holds F32 ones
STATED: Mapping[str, Mapping[str, Any]] = {
    "glm52-q4kxl-4x-rtxpro6000-c896k": {"ts": "54,9,8,8", "ot": _EXPERTS_OF.format("[0-9]|[1-4][0-9]|5[0-3]")},
    "glm52-q4kxl-4gpu-rocm-bench": {"c": 512, "np": 1, "op_offload": False, "tool": "llama-bench"},
    "minimax-m21-iq4nl-4x3090": {
        "ot": _EXPERTS_OF.format("[1-9]|10|1[7-9]|2[0-5]|3[3-9]|4[01]|49|5[0-7]"),
        "date": "2026-05-20",
    },
    "nemotron-ultra-550b-5090-b16": {"ot": "exps=CPU"},
    "qwen3-coder-480b-q6kxl-rocm-3rpc": {"c": 512, "np": 1, "tool": "llama-bench"},
    "qwen36-27b-mtp-mmproj-2gpu": {"date": "2026-05-20", "n_draft": 3},
}

NOT_COMPARED = {
    "3x4090-pr15860-breakdown": "the log does not name the model",
    "deepseek-r1-671b-8x-mi250x-ollama": "a conversion without latent attention, whose shape the log does not print",
    "nemotron51b-q5km-2x3090": "no model of this shape in the catalogue, and the log does not print it",
    "q6k-60layer-vulkan-20g-11g-oom": "the log does not name the model",
    "qwen14b-class-vulkan-8g-overcommit": "the log does not name the model",
    "qwen25-3b-class-vulkan-8g-breakdown": "the log does not print the context",
    "qwen27b-2gpu-ollama-rc21": "the log does not print the context",
    "qwen35-9b-q4kxl-3060l-np1-fit": "no model of this shape in the catalogue, and the log does not print it",
    "qwen35-9b-q4kxl-3060l-np4-fit": "no model of this shape in the catalogue, and the log does not print it",
    "qwen38-27b-rpc-2x9070xt": "no model of this shape in the catalogue, and the log does not print it",
    "qwen38-flash-next-4xrocm": "no model of this shape in the catalogue, and the log does not print the context",
    "qwen38-flash-next-iq4xs-4xv620": "no model of this shape in the catalogue, and the log does not print the context",
    "qwen38-flash-next-q8-ngl1": "no model of this shape in the catalogue, and the log does not print it",
}

# what is known about buffers that a plan misses by more than TOLERANCE
DIFFERENCES = {
    "mistral7b-q4km-a770-sycl": "an ipex-llm build, which fuses operations of its own",
    "mistral7b-q5km-4xmi100": "April 2024: llama.cpp's graphs and allocator were others",
    "mixtral-8x7b-q5km-2x7900xtx": "March 2024: llama.cpp's graphs and allocator were others",
    "qwen35-35b-q4km-3xa770-sycl": "the quoted command does not lead to the host's 5.4 GiB",
    "qwen36-27b-mtp-mmproj-2gpu": "a target with drafts of May 2026, whose flags are not printed",
    "strix-qwen36-35b-64k-q4_0": "Vulkan's order of nodes in May 2026 left no room for the logits below the mask",
}

TOLERANCE = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedBuffer:
    """One device's compute buffer in MiB, as planned and as printed."""

    row: ObservedRow
    device: str
    planned_mib: float
    printed_mib: float

    @property
    def error(self) -> float:
        """Signed relative error of the plan."""
        return (self.planned_mib - self.printed_mib) / self.printed_mib

    @property
    def is_close(self) -> bool:
        """Whether the plan is within the tolerance."""
        return abs(self.error) <= TOLERANCE


def compared_rows() -> list[ObservedRow]:
    """Rows that print a compute buffer of a known model."""
    return [row for row in rows_with_buffers() if row.id not in not_compared()]


def not_compared() -> dict[str, str]:
    """Rows that print a compute buffer and cannot be planned, and why."""
    forks = {row.id: "ik_llama.cpp, a fork with graphs of its own" for row in rows_with_buffers() if is_fork(row)}
    return {**NOT_COMPARED, **forks}


def is_fork(row: ObservedRow) -> bool:
    """Whether the log is one of a fork."""
    return str(row.values["engine"]) != "llama.cpp"


def rows_with_buffers() -> list[ObservedRow]:
    """Rows that print any compute buffer."""
    rows = observed_rows().values()
    return [row for row in rows if any(device.get("compute_mib") for device in row.values["devices"])]


@cache
def observed_buffers() -> tuple[ObservedBuffer, ...]:
    """Every compute buffer of a device that any compared row prints."""
    return tuple(buffer for row in compared_rows() for buffer in _buffers(row))


def _buffers(row: ObservedRow) -> list[ObservedBuffer]:
    planned = compute_buffers(compute_question(row)).device_bytes
    return [
        ObservedBuffer(row=row, device=device["name"], planned_mib=size / MIB, printed_mib=device["compute_mib"])
        for device, size in zip(row.values["devices"], planned, strict=True)
        if device.get("compute_mib")
    ]


@cache
def observed_model(name: str) -> Model:
    """The model a log names, with its matrices stored as in the log's file."""
    model = load_model(MODELS[name])
    stored = STORED_AS.get(name)
    if stored is None:
        return model
    tensors = tuple(_stored_as(tensor, stored) for tensor in model.tensors)
    return replace(
        model,
        tensors=tensors,
        tensor_by_name=MappingProxyType({tensor.name: tensor for tensor in tensors}),
    )


def _stored_as(tensor: Tensor, stored: Mapping[str, str]) -> Tensor:
    name = next((name for part, name in stored.items() if part in tensor.name), None)
    if name is None or tensor.type.block_elements == 1:
        return tensor
    elements = tensor.size_bytes // tensor.type.block_bytes * tensor.type.block_elements
    type_ = TENSOR_TYPE_BY_NAME[name]
    return replace(tensor, type=type_, size_bytes=type_.row_bytes(elements))


def compute_question(row: ObservedRow) -> ComputeQuestion:
    """The row's command as a question about compute buffers."""
    model = observed_model(str(row.values["model_name"]))
    hp = read_hparams(model)
    flags = {**row.flags, **STATED.get(row.id, {})}
    backends: tuple[Backend, ...] = (row.backend,) * len(row.values["devices"])
    entries = parse_override_tensor(str(flags["ot"]).replace("; ", ",")) if flags.get("ot") else ()
    layout = weight_layout(model, hp, resolve_overrides(entries, backends))
    parallel = int(flags.get("np") or row.parallel)
    rules = version_rules(None, flags["date"]) if "date" in flags else row.rules
    settings = replace(row.settings(), tool=flags.get("tool", "llama-server"))
    ctx = resolve_context(
        hp, settings, int(flags["c"]), parallel, rules, backends=backends, n_draft=flags.get("n_draft", 0)
    )
    slots = _slots(row, flags, hp.n_layer_all)
    return ComputeQuestion(
        model=model,
        hp=hp,
        ctx=ctx,
        slots=slots,
        backends=backends,
        tensor_location=layout.locations,
        pipeline_copies=_copies(row, slots),
        op_offload=flags.get("op_offload", True),
        rules=rules,
    )


def _slots(row: ObservedRow, flags: Mapping[str, Any], n_layer_all: int) -> SlotMap:
    """Slots by -ts, else by free memory, else even."""
    devices = row.values["devices"]
    shares = [float(share) for share in str(flags["ts"]).split(",")] if flags.get("ts") else []
    free = [device.get("free_mib") for device in devices]
    weights = shares or (free if all(free) else [1.0] * len(devices))
    asked = str(flags.get("ngl"))
    return split_slots(
        n_layer_all, resolve_n_gpu_layers(int(asked) if asked.isdigit() else "all", n_layer_all), weights
    )


def _copies(row: ObservedRow, slots: SlotMap) -> int:
    """Copies as the log prints them, else as many as several cards that hold everything make."""
    printed = row.values.get("n_copies")
    if printed is not None:
        return int(printed)
    remote = any(device["name"].startswith("RPC") for device in row.values["devices"])
    pipeline = len(row.values["devices"]) > 1 and slots.fully_offloaded and not row.flags.get("ot") and not remote
    return 4 if pipeline else 1
