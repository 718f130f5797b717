"""The engine part of a request: one model per engine, told apart by `name`."""

from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, Discriminator, Field, Tag

from service.contract.companions import CacheType, DraftReference, Layers, MmprojReference
from service.contract.quantities import REQUEST, Flag, Fraction, Rate, Text, Tokens, Whole

DEFAULT_ENGINE = "llama.cpp"

Card: TypeAlias = Annotated[Whole, Field(ge=0, le=1000)] | Text
Share: TypeAlias = Annotated[float, Field(strict=True, ge=0, le=1e18)]
Date: TypeAlias = Annotated[
    str, Field(strict=True, pattern=r"^(19|20)\d\d(-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?)?$")
]


class LlamaCppEngine(BaseModel):
    """llama.cpp and what the user fixes about it; a null field is the planner's to choose."""

    model_config = REQUEST

    name: Literal["llama.cpp"] = Field("llama.cpp", description="The engine.")
    version: Text | None = Field(
        None, description="Build, for example b8829; null: the newest known.", examples=["b8829"]
    )
    date: Date | None = Field(
        None,
        description="Date of the build where its number is unknown, at least YYYY-MM; a month or year stands for its "
        "last day.",
        examples=["2026-04"],
    )
    tool: Literal["llama-server", "llama-bench"] = Field(
        "llama-server", description="Program that will run; the logits buffer differs between them."
    )
    split_mode: Literal["none", "layer", "row", "tensor"] | None = Field(
        None, description="How the model is divided over the cards (-sm)."
    )
    main_gpu: Annotated[Whole, Field(ge=-1, le=1000)] = Field(
        0, description="The card of split mode none (-mg); -1 means the host."
    )
    devices: Annotated[list[Card], Field(min_length=1, max_length=16)] | None = Field(
        None,
        description="Cards to use, in the order they take layers (-dev): positions in rig.gpus from 0, or llama.cpp's "
        "names; null: chosen, or all where n_gpu_layers or tensor_split is stated.",
        examples=[[2, 0], ["CUDA2", "CUDA0"]],
    )
    tensor_split: Annotated[list[Share], Field(min_length=1, max_length=16)] | None = Field(
        None,
        description="Share of each card on any positive scale (-ts); null: chosen, or by free memory as llama.cpp does "
        "where n_gpu_layers is stated.",
        examples=[[3, 1]],
    )
    n_gpu_layers: Layers | Literal["all", "auto"] | None = Field(
        None,
        description="Layers on the cards, counted from the end, the output layer included (-ngl); "
        '"all" or -2; "auto", -1 or null: the planner\'s choice.',
        examples=["all"],
    )
    n_batch: Tokens = Field(2048, description="Logical batch in tokens (-b).")
    n_ubatch: Tokens = Field(512, description="Physical batch in tokens (-ub).")
    flash_attn: Flag | None = Field(None, description="Flash attention (-fa); null: auto.")
    cache_type_k: CacheType | None = Field(None, description="Type of the key cache (-ctk); null: f16.")
    cache_type_v: CacheType | None = Field(None, description="Type of the value cache (-ctv); null: f16.")
    kv_unified: Flag | None = Field(
        None, description="One cache shared by all streams (-kvu); null: the tool's default for `parallel` streams."
    )
    swa_full: Flag = Field(False, description="Keep the full context on sliding-window layers (--swa-full).")
    n_cpu_moe: Annotated[Whole, Field(ge=0, le=1_000_000)] | None = Field(
        None, description="Blocks whose routed experts stay on the host (--n-cpu-moe); beyond the block count: all."
    )
    override_tensor: Annotated[list[Text], Field(max_length=4096)] = Field(
        default_factory=list,
        description="Tensors by regular expression to a buffer type, first match wins (-ot).",
        examples=[[r"blk\.(1|2)\.ffn_.*_exps.*=CPU"]],
    )
    kv_offload: Flag = Field(True, description="Keep the KV cache on the cards (false: -nkvo).")
    fit: Flag | None = Field(
        None,
        description="true: let llama.cpp's own --fit choose what is left open (-fit), with its default margins; "
        "false or null: the planner chooses.",
    )
    draft: DraftReference | None = Field(
        None,
        description='Speculation: a draft model by name, "mtp" for the model\'s own draft layers, or an object.',
        examples=["qwen3-0.6b:Q8_0"],
    )
    mmproj: MmprojReference | None = Field(
        None, description="Projector for images or sound: a model by name, or an object."
    )


class VllmEngine(BaseModel):
    """vLLM and what the user fixes about it; a null field is the planner's to choose."""

    model_config = REQUEST

    name: Literal["vllm"] = Field(description="The engine.")
    version: Text | None = Field(None, description="Release, for example 0.33.0.", examples=["0.33.0"])
    date: Date | None = Field(None, description="Date of the release, at least YYYY-MM.")
    tensor_parallel_size: Tokens | None = Field(None, description="Cards that share every layer.")
    pipeline_parallel_size: Tokens | None = Field(None, description="Stages of consecutive layers.")
    data_parallel_size: Tokens | None = Field(None, description="Replicas that serve side by side.")
    pp_layer_partition: Annotated[list[Tokens], Field(min_length=1, max_length=1000)] | None = Field(
        None, description="Layers per stage (VLLM_PP_LAYER_PARTITION).", examples=[[20, 12]]
    )
    gpu_memory_utilization: Fraction | None = Field(None, description="Share of each card's memory that vLLM may use.")
    max_model_len: Tokens | None = Field(None, description="Longest sequence in tokens.")
    max_num_batched_tokens: Tokens | None = Field(None, description="Tokens per step.")
    max_num_seqs: Tokens | None = Field(None, description="Sequences per step.")
    kv_cache_dtype: Text | None = Field(None, description="Type of the KV cache.")
    enforce_eager: Flag | None = Field(None, description="Run without CUDA graphs.")
    cpu_offload_gib: Rate | None = Field(None, description="Weights kept in host memory per card, in GiB.")
    enable_expert_parallel: Flag | None = Field(None, description="Distribute whole experts over the cards.")


def _engine_name(value: object) -> str | None:
    name = value.get("name", DEFAULT_ENGINE) if isinstance(value, Mapping) else getattr(value, "name", None)
    return f"<{name}>" if isinstance(name, str) else None


EngineRequest: TypeAlias = Annotated[
    Annotated[LlamaCppEngine, Tag("<llama.cpp>")] | Annotated[VllmEngine, Tag("<vllm>")],
    Discriminator(_engine_name),
]
ENGINE_NAMES = ("llama.cpp", "vllm")
