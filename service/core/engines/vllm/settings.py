"""What the user fixed about vLLM; None is the planner's to choose."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmSettings:
    """Fields of `vllm serve`, by its own names."""

    version: str | None = None
    date: str | None = None
    tensor_parallel_size: int | None = None
    pipeline_parallel_size: int | None = None
    data_parallel_size: int | None = None
    pp_layer_partition: tuple[int, ...] | None = None
    gpu_memory_utilization: float | None = None
    max_model_len: int | None = None
    max_num_batched_tokens: int | None = None
    max_num_seqs: int | None = None
    kv_cache_dtype: str | None = None
    enforce_eager: bool = False
    cpu_offload_gib: float = 0.0
    enable_expert_parallel: bool = False
