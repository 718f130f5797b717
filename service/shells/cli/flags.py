"""Flags of `rigfit plan`, spelled as llama.cpp spells them (common/arg.cpp of llama-cpp-python 0.3.36)."""

from pathlib import Path
from typing import Annotated, Any

import typer

from service.shells.cli.rig_flags import rig_of
from service.shells.cli.vllm_flags import engine_of

Text = str | None
Number = int | None

Model = Annotated[Text, typer.Argument(help="Catalogue name:quant, an id (sha256:…), a GGUF file or its address.")]
Gpus = Annotated[list[str] | None, typer.Option("--gpu", help="Cards, as '2x rtx-3090 + rtx-4090'; may be repeated.")]
Context = Annotated[
    Number, typer.Option("-c", "--ctx-size", help="Context in tokens; without it, the largest that fits.")
]
Parallel = Annotated[Number, typer.Option("-np", "--parallel", help="Streams at once.")]
Prompt = Annotated[Number, typer.Option("--prompt-tokens", help="Tokens of the prompt.")]
Cached = Annotated[Number, typer.Option("--cached-tokens", help="Tokens in the cache before the prompt.")]
Output = Annotated[Number, typer.Option("--output-tokens", help="Tokens to generate.")]
GpuLayers = Annotated[
    Text,
    typer.Option("-ngl", "--gpu-layers", "--n-gpu-layers", metavar="N|all|auto", help="Layers on the cards."),
]
SplitMode = Annotated[
    Text, typer.Option("-sm", "--split-mode", metavar="none|layer|row|tensor", help="How the cards share the model.")
]
TensorSplit = Annotated[Text, typer.Option("-ts", "--tensor-split", metavar="N0,N1,…", help="Share of each card.")]
Devices = Annotated[
    Text,
    typer.Option("-dev", "--device", metavar="CUDA1,CUDA0,…", help="Cards to use, in order."),
]
MainGpu = Annotated[Number, typer.Option("-mg", "--main-gpu", help="The card of split mode none.")]
Batch = Annotated[Number, typer.Option("-b", "--batch-size", help="Logical batch in tokens.")]
Ubatch = Annotated[Number, typer.Option("-ub", "--ubatch-size", help="Physical batch in tokens.")]
FlashAttn = Annotated[Text, typer.Option("-fa", "--flash-attn", metavar="on|off|auto", help="Flash attention.")]
CacheTypeK = Annotated[Text, typer.Option("-ctk", "--cache-type-k", help="Type of the key cache.")]
CacheTypeV = Annotated[Text, typer.Option("-ctv", "--cache-type-v", help="Type of the value cache.")]
KvUnified = Annotated[
    bool | None, typer.Option("-kvu/-no-kvu", "--kv-unified/--no-kv-unified", help="One cache for all streams.")
]
SwaFull = Annotated[bool, typer.Option("--swa-full", help="Full context on sliding-window layers.")]
NoKvOffload = Annotated[bool, typer.Option("-nkvo", "--no-kv-offload", help="Keep the cache on the host.")]
OverrideTensor = Annotated[
    list[str] | None,
    typer.Option("-ot", "--override-tensor", metavar="PATTERN=TYPE,…", help="Tensors by pattern to a buffer type."),
]
NCpuMoe = Annotated[Number, typer.Option("-ncmoe", "--n-cpu-moe", help="Blocks whose experts stay on the host.")]
CpuMoe = Annotated[bool, typer.Option("-cmoe", "--cpu-moe", help="All experts on the host.")]
Fit = Annotated[Text, typer.Option("-fit", "--fit", metavar="on|off", help="Let llama.cpp's own --fit choose.")]
DraftModel = Annotated[
    Text,
    typer.Option(
        "-md", "--spec-draft-model", "--model-draft", metavar="MODEL", help="Draft model: a name or a GGUF file."
    ),
]
SpecType = Annotated[
    Text,
    typer.Option("--spec-type", metavar="draft-…", help="Kind of speculation; draft-mtp: the model's draft layers."),
]
DraftMax = Annotated[Number, typer.Option("--spec-draft-n-max", help="Tokens the draft proposes per step.")]
DraftAcceptance = Annotated[
    float | None, typer.Option("--acceptance", help="Probability that a proposed token is accepted, 0 to 1.")
]
DraftGpuLayers = Annotated[
    Text,
    typer.Option(
        "-ngld",
        "--spec-draft-ngl",
        "--gpu-layers-draft",
        "--n-gpu-layers-draft",
        metavar="N|all|auto",
        help="Layers of the draft model on the cards.",
    ),
]
DraftCacheTypeK = Annotated[
    Text, typer.Option("-ctkd", "--spec-draft-type-k", "--cache-type-k-draft", help="Type of the draft's key cache.")
]
DraftCacheTypeV = Annotated[
    Text, typer.Option("-ctvd", "--spec-draft-type-v", "--cache-type-v-draft", help="Type of the draft's value cache.")
]
DraftOverrideTensor = Annotated[
    list[str] | None,
    typer.Option(
        "-otd",
        "--spec-draft-override-tensor",
        "--override-tensor-draft",
        metavar="PATTERN=TYPE,…",
        help="Tensors of the draft model by pattern to a buffer type.",
    ),
]
DraftNCpuMoe = Annotated[
    Number,
    typer.Option(
        "-ncmoed",
        "--spec-draft-n-cpu-moe",
        "--spec-draft-ncmoe",
        "--n-cpu-moe-draft",
        help="Blocks of the draft model whose experts stay on the host.",
    ),
]
Mmproj = Annotated[Text, typer.Option("-mm", "--mmproj", metavar="MODEL", help="Projector: a name or a GGUF file.")]
MmprojBytes = Annotated[Number, typer.Option("--mmproj-bytes", help="Bytes of the projector, without its file.")]
NoMmprojOffload = Annotated[bool, typer.Option("--no-mmproj-offload", help="Keep the projector on the host.")]
Tool = Annotated[Text, typer.Option("--tool", help="llama-server or llama-bench.")]
Version = Annotated[Text, typer.Option("--engine-version", help="llama.cpp build, for example b8829.")]
Date = Annotated[Text, typer.Option("--engine-date", help="Date of the build, at least YYYY-MM.")]
RamBytes = Annotated[Number, typer.Option("--ram-bytes", help="Main memory in bytes.")]
RamBandwidth = Annotated[
    float | None, typer.Option("--ram-bandwidth", help="Main memory bandwidth in bytes per second.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the plan as JSON.")]
Request = Annotated[Text, typer.Option("--request", metavar="FILE|-", help="Answer one PlanRequest in JSON.")]
Requests = Annotated[Text, typer.Option("--requests", metavar="FILE|-", help="Answer PlanRequests in JSON Lines.")]

WORKLOAD = ("context_tokens", "parallel", "prompt_tokens", "cached_tokens", "output_tokens")
ENGINE = (
    "n_gpu_layers", "split_mode", "tensor_split", "main_gpu", "devices", "n_batch", "n_ubatch", "flash_attn",
    "cache_type_k", "cache_type_v", "kv_unified", "swa_full", "kv_offload", "override_tensor", "n_cpu_moe", "fit",
    "draft", "mmproj",
    "tool", "version", "date",
)  # fmt: skip
DRAFT = (
    "model", "spec_type", "n_max", "acceptance_fraction", "n_gpu_layers", "cache_type_k", "cache_type_v",
    "override_tensor", "n_cpu_moe",
)  # fmt: skip
MMPROJ = ("model", "weights_bytes", "offload")
HOST = ("ram_bytes", "ram_bandwidth_bytes_per_s", "cpu")

_TRUE = {"on", "enabled", "true", "1"}
_FALSE = {"off", "disabled", "false", "0"}
_ALL_BLOCKS = 1_000_000


def question_of(flags: dict[str, Any]) -> dict[str, Any]:
    """State flags as a PlanRequest; what is no number or switch stays as it is, for the contract to refuse."""
    stated = flags | {
        "n_gpu_layers": _number(flags["n_gpu_layers"], int),
        "tensor_split": _shares(flags["tensor_split"]),
        **_devices(flags),
        "flash_attn": switch(flags["flash_attn"]),
        "swa_full": flags["swa_full"] or None,
        "kv_offload": False if flags["no_kv_offload"] else None,
        "override_tensor": flags["override_tensor"] or None,
        "fit": switch(flags["fit"]),
        "n_cpu_moe": _ALL_BLOCKS if flags["cpu_moe"] else flags["n_cpu_moe"],
        "draft": _draft(flags),
        "mmproj": _mmproj(flags),
    }
    return {
        "rig": {**rig_of(flags), "host": _given(stated, HOST)},
        "workload": _given(stated, WORKLOAD),
        "engine": _given(stated, ENGINE) | engine_of(flags),
    }


def model_reference(text: str) -> str | dict[str, str]:
    """A file of this computer, an address of another host, or a name of the catalogue."""
    from service.contract.model_reference import is_address  # noqa: PLC0415 - the flags alone need no contract

    if text.endswith(".gguf") and Path(text).is_file():
        return {"path": text}
    return {"url": text} if is_address(text) else text


def _devices(flags: dict[str, Any]) -> dict[str, Any]:
    """Cards to use; without any the model runs on the host alone, whatever split is asked for."""
    if flags["devices"] == "none":
        return {"devices": None, "split_mode": "none", "main_gpu": -1}
    return {"devices": None if flags["devices"] is None else flags["devices"].split(",")}


def _draft(flags: dict[str, Any]) -> dict[str, Any] | None:
    """Flags of the draft; None where none was given."""
    stated = {name: flags[f"draft_{name}"] for name in DRAFT} | {
        "model": None if flags["draft_model"] is None else model_reference(flags["draft_model"]),
        "n_gpu_layers": _number(flags["draft_n_gpu_layers"], int),
        "override_tensor": flags["draft_override_tensor"] or None,
    }
    return _given(stated, DRAFT) or None


def _mmproj(flags: dict[str, Any]) -> dict[str, Any] | None:
    """Flags of the projector; None where none was given."""
    stated = {
        "model": None if flags["mmproj"] is None else model_reference(flags["mmproj"]),
        "weights_bytes": flags["mmproj_bytes"],
        "offload": False if flags["no_mmproj_offload"] else None,
    }
    return _given(stated, MMPROJ) or None


def _given(flags: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: flags[name] for name in names if flags[name] is not None}


def _number(text: str | None, kind: type[int] | type[float]) -> float | str | None:
    try:
        return None if text is None else kind(text)
    except ValueError:
        return text


def _shares(text: str | None) -> list[float | str | None] | None:
    return None if text is None else [_number(part, float) for part in text.replace("/", ",").split(",")]


def switch(text: str | None) -> bool | str | None:
    """Read on, off or auto. Source: is_truthy, is_falsey and is_autoy, common/arg.cpp."""
    if text in (None, "auto", "-1"):
        return None
    return True if text in _TRUE else False if text in _FALSE else text
