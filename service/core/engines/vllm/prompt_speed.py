"""How long a prompt takes: arithmetic of every stage, its all-reduces, chunk by chunk.

Source: public runs, as service/core/engines/vllm/speed_constants.py names them.
"""

from collections.abc import Sequence

from service.core.engines.vllm.deployment import Deployment, Rank
from service.core.engines.vllm.formats import FORMATS, Format
from service.core.engines.vllm.kv_cache import caches_of
from service.core.engines.vllm.reductions import reducing_s
from service.core.engines.vllm.speed_constants import (
    ATTENTION_FRACTION,
    BANDWIDTH_FRACTION_BY_BITS,
    FP32_MULTIPLE,
    NATIVE_RATE_FACTORS,
    STEP_S,
    TENSOR_FRACTION,
)
from service.core.power_limits import limited_speed
from service.core.types import Gpu, Rig, Workload


def prompt_flops_per_s(gpu: Gpu, scheme: Format) -> float | None:
    """Rate at which prompts are multiplied: a share of the tensor rate, more in a format that the card computes in."""
    if gpu.fp16_tensor_flops is None:
        return None if gpu.fp32_flops is None else gpu.fp32_flops * FP32_MULTIPLE
    native, capability = scheme.native_capability, gpu.compute_capability
    computes_in_it = native is not None and capability is not None and capability >= native
    return (
        gpu.fp16_tensor_flops * TENSOR_FRACTION * (NATIVE_RATE_FACTORS[scheme.weight_bits] if computes_in_it else 1.0)
    )


def prefill_s(deployment: Deployment, ranks: Sequence[Rank], workload: Workload, rig: Rig) -> float | None:
    """Time of one prompt in chunks of max_num_batched_tokens; stages work on different chunks at the same time."""
    tp, pp = deployment.layout.tensor_parallel, deployment.layout.pipeline_parallel
    tokens = workload.prompt_tokens
    chunks = -(-tokens // deployment.run.batch.max_num_batched_tokens)
    times = []
    for stage in range(pp):
        each = [_prompt_s(deployment, rank, workload, chunks, rig) for rank in ranks[stage * tp : (stage + 1) * tp]]
        if any(time is None for time in each):
            return None
        times.append(max(time for time in each if time is not None))
    # the first chunk passes every stage, the others follow at the pace of the slowest
    return (sum(times) + (chunks - 1) * max(times)) / chunks + chunks * STEP_S


def _prompt_s(deployment: Deployment, rank: Rank, workload: Workload, chunks: int, rig: Rig) -> float | None:
    model, gpu, tp = deployment.model, deployment.gpus[rank.card], deployment.layout.tensor_parallel
    rate, plain_rate = prompt_flops_per_s(gpu, FORMATS[model.scheme]), prompt_flops_per_s(gpu, FORMATS["BF16"])
    if not rate or not plain_rate:
        return None
    kept = limited_speed(gpu.power_limit_w, gpu.tdp_w).prefill_fraction
    tokens, share = workload.prompt_tokens, len(rank.blocks) / len(model.layers) / tp
    matrices = 2.0 * model.active_parameters * tokens * share / (rate * kept)
    attention = _attention_flops(deployment, rank.blocks, workload) / tp / (plain_rate * kept * ATTENTION_FRACTION)
    fraction = BANDWIDTH_FRACTION_BY_BITS[FORMATS[model.scheme].weight_bits]
    held = rank.weights.stored_bytes
    reading = chunks * held / ((gpu.bandwidth_bytes_per_s or 1.0) * fraction)
    chunk = -(-tokens // chunks)
    reducing = chunks * reducing_s(deployment, rank, chunk, rig)
    return max(matrices + attention, reading) + reducing


def _attention_flops(deployment: Deployment, blocks: range, workload: Workload) -> float:
    """Arithmetic of attention over the prompt and what is cached, keys and values, over all heads."""
    tokens, cached = workload.prompt_tokens, workload.cached_tokens
    total = 0.0
    for cache, count in caches_of(deployment.model, blocks):
        if cache.state is not None:
            continue
        seen = cached + tokens / 2
        if cache.window_tokens:
            seen = min(seen, cache.window_tokens)
        sizes = cache.head_size_k + (cache.head_size_v or cache.head_size_k)
        total += 2.0 * count * tokens * seen * sizes * deployment.model.attention_heads
    return total
