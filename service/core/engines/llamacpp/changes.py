"""Merged changes of llama.cpp that alter an answer, and the days since which they hold."""

from dataclasses import dataclass
from datetime import date
from typing import Final, Literal

Rule = Literal[
    "pipeline_parallel",
    "output_rows_of_sequences",
    "cache_padded_for_kernels",
    "cache_padded_less_without_flash_attn",
    "device_list",
    "latent_cache",
    "windowed_cache",
    "server_projector",
    "separate_streams",
    "n_cpu_moe",
    "flash_attn_auto",
    "bench_device_list",
    "unpadded_cache",
    "server_default_slots",
    "padded_context",
    "vulkan_reorders",
    "fit_by_default",
    "fit_targets_per_device",
    "tensor_split_mode",
    "drafts_read_all_rows",
    "draft_contexts",
    "f16_masks",
    "logits_rows_of_streams",
    "attention_scratch_in_graph",
    "no_row_split_on_cuda",
    "kv_unified_per_slot",
    "metal_attention_scratch",
    "fused_sources_kept",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A rule that holds since a date, and the pull requests of ggml-org/llama.cpp that made it so."""

    rule: Rule
    since: date
    pull_requests: tuple[int, ...]
    what: str


CHANGES: Final = (
    Change(
        rule="pipeline_parallel",
        since=date(2024, 3, 1),
        pull_requests=(6017,),
        what="several GPUs work on one batch in n_ubatch pieces, with four copies of every graph input",
    ),
    Change(
        rule="output_rows_of_sequences",
        since=date(2024, 3, 1),
        pull_requests=(6122,),
        what="the host's output buffer has n_seq_max rows",
    ),
    Change(
        rule="cache_padded_for_kernels",
        since=date(2024, 4, 3),
        pull_requests=(6438,),
        what="the context is padded to 256 instead of 32 tokens",
    ),
    Change(
        rule="cache_padded_less_without_flash_attn",
        since=date(2024, 5, 14),
        pull_requests=(7257,),
        what="without flash attention the context is padded to 32 tokens again",
    ),
    Change(
        rule="device_list",
        since=date(2024, 11, 25),
        pull_requests=(10497,),
        what="--device names the cards to use, in order",
    ),
    Change(
        rule="latent_cache",
        since=date(2025, 4, 1),
        pull_requests=(12801,),
        what="latent attention caches K only",
    ),
    Change(
        rule="windowed_cache",
        since=date(2025, 5, 1),
        pull_requests=(13194,),
        what="sliding-window layers have a cache of their own, as short as the window",
    ),
    Change(
        rule="server_projector",
        since=date(2025, 5, 9),
        pull_requests=(12898,),
        what="llama-server takes --mmproj",
    ),
    Change(
        rule="separate_streams",
        since=date(2025, 7, 16),
        pull_requests=(14363,),
        what="sequences may own separate parts of the cache",
    ),
    Change(
        rule="n_cpu_moe",
        since=date(2025, 8, 1),
        pull_requests=(15077,),
        what="--cpu-moe and --n-cpu-moe",
    ),
    Change(
        rule="flash_attn_auto",
        since=date(2025, 8, 30),
        pull_requests=(15434,),
        what="flash attention is on wherever the backend has it, without asking",
    ),
    Change(
        rule="bench_device_list",
        since=date(2025, 9, 17),
        pull_requests=(16039,),
        what="llama-bench takes --device as well",
    ),
    Change(
        rule="unpadded_cache",
        since=date(2025, 10, 28),
        pull_requests=(16812,),
        what="the context is not padded",
    ),
    Change(
        rule="server_default_slots",
        since=date(2025, 11, 1),
        pull_requests=(16736, 17997),
        what="llama-server without -np starts four slots on one cache",
    ),
    Change(
        rule="padded_context",
        since=date(2025, 11, 7),
        pull_requests=(17046,),
        what="the context is padded to 256 tokens, and sliding-window caches always are",
    ),
    Change(
        rule="vulkan_reorders",
        since=date(2025, 11, 25),
        pull_requests=(15850, 17475),
        what="Vulkan computes the nodes of a graph in an order of its own, for prompts as well",
    ),
    Change(
        rule="fit_by_default",
        since=date(2025, 12, 1),
        pull_requests=(16653, 18070),
        what="--fit changes what the user left open until it fits",
    ),
    Change(
        rule="fit_targets_per_device",
        since=date(2026, 1, 1),
        pull_requests=(18679,),
        what="--fit-target takes one margin per device",
    ),
    Change(
        rule="tensor_split_mode",
        since=date(2026, 4, 1),
        pull_requests=(19378, 22299, 22171),
        what="-sm tensor",
    ),
    Change(
        rule="drafts_read_all_rows",
        since=date(2026, 5, 15),
        pull_requests=(22673, 25589),
        what="Qwen3-Next, 3.5 and 3.6 compute all rows of their last block, which a draft may read",
    ),
    Change(
        rule="draft_contexts",
        since=date(2026, 5, 16),
        pull_requests=(22397, 22964, 22673),
        what="a draft is a context as long as the model's own, --spec-type says which kind, draft (MTP) layers are one",
    ),
    Change(
        rule="f16_masks",
        since=date(2026, 5, 28),
        pull_requests=(23764,),
        what="masks of fused attention are F16 inputs, no longer F32 inputs that every device converts",
    ),
    Change(
        rule="logits_rows_of_streams",
        since=date(2026, 6, 1),
        pull_requests=(23861,),
        what="llama-server reserves logits for its streams instead of a whole batch",
    ),
    Change(
        rule="attention_scratch_in_graph",
        since=date(2026, 6, 4),
        pull_requests=(23907,),
        what="CUDA's F16 copies of a quantised cache are part of the compute buffer",
    ),
    Change(
        rule="kv_unified_per_slot",
        since=date(2026, 7, 1),
        pull_requests=(24124,),
        what="--kv-unified-per-slot",
    ),
    Change(
        rule="no_row_split_on_cuda",
        since=date(2026, 7, 6),
        pull_requests=(24216,),
        what="-sm row is gone from CUDA and HIP",
    ),
    Change(
        rule="metal_attention_scratch",
        since=date(2026, 8, 20),
        pull_requests=(27390, 27438),
        what="Metal reserves F16 copies of the cache in the compute buffer",
    ),
    Change(
        rule="fused_sources_kept",
        since=date(2026, 9, 5),
        pull_requests=(27301, 25952, 28422, 28948),
        what="GPU backends keep what fused operations read, which makes compute buffers of mixtures of experts larger",
    ),
)
"""Changes in the order they were merged; the day is the first of the month where only the month is known.

Source: pull requests of ggml-org/llama.cpp as numbered; those of 2024 and 6438, 7257, 10497, 14363, 16039, 16812 and
17046 with the day their discussion gives.
"""
