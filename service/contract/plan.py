"""Plan: the answer."""

from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, Field

from service.contract.companions import CompanionPlan, DraftPlan, MmprojPlan
from service.contract.estimate import Estimate
from service.contract.hardware import Links, Power
from service.contract.quantities import ANSWER
from service.contract.request import AssumptionsRequest, WorkloadRequest
from service.contract.speed import SpeedPlan

Verdict: TypeAlias = Literal["fits", "fits_with_host_offload", "does_not_fit"]
Severity: TypeAlias = Literal["info", "warning", "error"]
Number: TypeAlias = int | float
Numbers: TypeAlias = dict[str, Number | str | list[Number] | list[str]]


class ModelSummary(BaseModel):
    """The model that was planned."""

    model_config = ANSWER

    name: str | None = Field(description="Catalogue name, or the name in the file.", examples=["llama-3.3-70b"])
    id: str = Field(description="Digest of metadata and tensor table.")
    architecture: str = Field(description="Architecture as GGUF names it.", examples=["llama"])
    quant: str | None = Field(description="Quantisation mix.", examples=["Q4_K_M"])
    parameters: int = Field(description="Weights in the file.", examples=[70553706560])
    active_parameters: int = Field(description="Weights used for one token.", examples=[70553706560])
    tensor_data_bytes: int = Field(description="Bytes of all tensors.", examples=[42512531712])
    trained_context_tokens: int = Field(description="Context the model was trained for, in tokens.", examples=[131072])


class LlamaCppEnginePlan(BaseModel):
    """Every field of llama.cpp as it was resolved."""

    model_config = ANSWER

    name: Literal["llama.cpp"]
    version: str | None = Field(description="Build asked for; null: the newest known.")
    date: str | None = Field(description="Date asked for.")
    tool: Literal["llama-server", "llama-bench"]
    split_mode: Literal["none", "layer", "row", "tensor"]
    main_gpu: int
    devices: list[int] | None = Field(description="Cards used, by position, in this order; null: all of them.")
    tensor_split: list[float] | None = Field(description="Shares of the cards; null with fewer than two.")
    n_gpu_layers: int = Field(description="Layers on the cards, the output layer included.")
    n_batch: int
    n_ubatch: int
    flash_attn: bool
    cache_type_k: str
    cache_type_v: str
    kv_unified: bool
    swa_full: bool
    n_cpu_moe: int
    override_tensor: list[str]
    kv_offload: bool
    fit: bool
    draft: DraftPlan | None = Field(None, description="Speculation; null: none.")
    mmproj: MmprojPlan | None = Field(None, description="Projector for images or sound; null: none.")
    rules_version: str = Field(description="Source that the placement rules follow.")
    pipeline_parallel: bool = Field(description="Whether several ubatches run on the cards at once.")
    sched_copies: int = Field(description="Copies of the graph inputs that pipelining keeps.")
    fit_args: list[str] | None = Field(
        None,
        description="Arguments that llama.cpp's own --fit settles on, as llama-fit-params prints them; deviceN stands "
        "for the buffer type of the N-th card in llama.cpp's order. Null where the planner chose.",
    )
    n_ctx: int = Field(description="Context in tokens after the engine's rounding.")
    n_ctx_seq: int = Field(description="Context of one stream in tokens.")


class VllmEnginePlan(BaseModel):
    """Every field of vLLM as it was resolved, and what it makes of them."""

    model_config = ANSWER

    name: Literal["vllm"]
    version: str | None = Field(description="Release asked for; null: the newest known.")
    date: str | None = Field(description="Date asked for.")
    tensor_parallel_size: int = Field(description="Cards that share every layer.")
    pipeline_parallel_size: int = Field(description="Stages of consecutive layers.")
    data_parallel_size: int = Field(description="Replicas that serve side by side.")
    pp_layer_partition: list[int] = Field(description="Layers of each stage.")
    gpu_memory_utilization: float = Field(description="Share of each card's memory that vLLM may use.")
    max_model_len: int = Field(description="Longest sequence in tokens.")
    max_num_batched_tokens: int = Field(description="Tokens per step.")
    max_num_seqs: int = Field(description="Sequences per step.")
    kv_cache_dtype: str
    enforce_eager: bool
    cpu_offload_gib: float = Field(description="Weights kept in host memory per card, in GiB.")
    enable_expert_parallel: bool
    rules_version: str = Field(description="Source that the rules follow.")
    dtype: str = Field(description="Type of activations and of weights that are not quantised.")
    quantization: str | None = Field(description="How weights are quantised; null: not at all.")
    block_size: int = Field(description="Tokens of one block of the KV cache.")
    num_gpu_blocks: int = Field(description="Blocks of the KV cache; the least over all ranks.")
    kv_cache_tokens: int = Field(description="Tokens that the KV cache holds, of one replica.")
    max_concurrency: float = Field(description="Sequences of max_model_len that the KV cache holds, of one replica.")
    available_kv_bytes: int = Field(description="Bytes for the KV cache on the rank that has the fewest.")


EnginePlan: TypeAlias = Annotated[LlamaCppEnginePlan | VllmEnginePlan, Field(discriminator="name")]


class DevicePlan(BaseModel):
    """One card: what lies on it and what it does per token."""

    model_config = ANSWER

    index: int
    gpu: str = Field(description="Catalogue slug, or the name given.", examples=["rtx-3090"])
    backend: str = Field(examples=["cuda"])
    layers: list[Annotated[list[int], Field(min_length=2, max_length=2)]] = Field(
        description="Blocks it holds as [first, end) ranges.", examples=[[[0, 40]]]
    )
    holds_output: bool
    weights_bytes: int
    kv_bytes: int = Field(description="KV cache and recurrent state.")
    compute_bytes: int
    overhead_bytes: int = Field(description="What the backend keeps besides, once the engine runs.")
    companion_bytes: int = Field(description="What the draft and the projector take, all of it.")
    total_bytes: int
    usable_bytes: int = Field(description="What a program can get on this card when it is idle.")
    headroom_bytes: int = Field(description="usable_bytes minus total_bytes; negative where it does not fit.")
    read_bytes_per_token: int = Field(description="Bytes read for one token of one stream.")
    decode_s: float | None = Field(description="Time per decode step on this card, in seconds.")


class HostPlan(BaseModel):
    """The host: what lies in main memory and what it does per token."""

    model_config = ANSWER

    weights_bytes: int
    kv_bytes: int
    compute_bytes: int
    companion_bytes: int = Field(description="What the draft and the projector take.")
    total_bytes: int
    read_bytes_per_token: int
    decode_s: float | None


class CommandNote(BaseModel):
    """One part of a command and what it does."""

    model_config = ANSWER

    flag: str = Field(description="A flag with its value, or a variable.", examples=["-ngl all"])
    meaning: str = Field(description="What it does, and what would be without it.")


class Command(BaseModel):
    """How to run this plan, and how to measure it."""

    model_config = ANSWER

    argv: list[str]
    env: dict[str, str]
    text: str = Field(description="Environment and arguments as one line for a shell.")
    verify: str = Field(description="A line that measures what was predicted; llama-bench runs one stream.")
    notes: list[CommandNote] = Field(description="Every variable and flag with what it does.")


class PlanWarning(BaseModel):
    """Something to know about this plan."""

    model_config = ANSWER

    code: str = Field(examples=["context-beyond-training"])
    severity: Severity
    message: str
    numbers: Numbers


class Advice(BaseModel):
    """Something that would be better."""

    model_config = ANSWER

    code: str = Field(examples=["single-fast-gpu"])
    message: str
    numbers: Numbers


class Alternative(BaseModel):
    """Another way to run the same model on the same rig."""

    model_config = ANSWER

    label: str
    engine: EnginePlan
    verdict: Verdict
    decode_tokens_per_s: Estimate | None
    prefill_tokens_per_s: Estimate | None
    max_context_tokens: int
    busiest_device_bytes: int
    argv: list[str]


class Plan(BaseModel):
    """Where every byte goes, whether it fits, and how fast it will run."""

    model_config = ANSWER

    id: str = Field(
        description="Digest of the question and of the rules and data versions.", examples=["pln_0123456789abcdef"]
    )
    model: ModelSummary
    workload: WorkloadRequest = Field(description="The workload, with the context that was chosen.")
    engine: EnginePlan
    assumptions: AssumptionsRequest | None = Field(description="What-if overrides, echoed.")
    fits: bool = Field(description="Everything asked for, on the cards, at this context.")
    verdict: Verdict
    devices: list[DevicePlan]
    host: HostPlan
    companions: list[CompanionPlan] = Field(description="What runs beside the model, part by part.")
    max_context_tokens: int = Field(
        description="Largest multiple of 256 that fits with these choices, up to the trained context or, "
        "if more was asked for, up to that; 0 where none fits."
    )
    shortfall_bytes: int = Field(description="Bytes missing over all devices and the host.")
    speed: SpeedPlan | None
    command: Command
    power: Power | None = Field(description="What the rig draws; null where a card's power is not known.")
    links: Links | None = Field(description="What joins the cards; null for a rig without cards.")
    warnings: list[PlanWarning]
    advice: list[Advice]
    alternatives: list[Alternative]
    explanation: list[str]
