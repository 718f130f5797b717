"""What would be better than a plan of vLLM, as codes with their numbers."""

from collections.abc import Iterator

from service.contract.plan import Advice
from service.planning.engines.vllm.findings import VllmFindings

_LARGEST_UTILIZATION = 0.97
# prompts this much faster are worth slower tokens to some
_PROMPT_GAIN = 1.3


def advice_of(findings: VllmFindings) -> list[Advice]:
    """Every advice."""
    return [*_raise_utilization(findings), *_cache_in_eight_bits(findings), *_pipeline_for_prompts(findings)]


def _pipeline_for_prompts(findings: VllmFindings) -> Iterator[Advice]:
    """Without NVLink the all-reduces of whole prompts cost more than stages that wait for each other.

    Source: vLLM's guidance on parallelism (docs, "Parallelism and Scaling"): without NVLink prefer pipelines.
    """
    choice = findings.choice
    prompt_s = None if choice.speed is None else choice.speed.prefill_s
    if choice.deployment.layout.tensor_parallel == 1 or not choice.fits or prompt_s is None:
        return
    for other in findings.others:
        layout = other.deployment.layout
        other_s = None if other.speed is None else other.speed.prefill_s
        if layout.tensor_parallel == 1 and layout.pipeline_parallel > 1 and other.fits and other_s:
            if prompt_s > _PROMPT_GAIN * other_s:
                yield Advice(
                    code="pipeline-for-prompts",
                    message=f"As a pipeline of {layout.pipeline_parallel} stages prompts are read "
                    f"{prompt_s / other_s:.1f} times as fast, and tokens are generated more slowly: the cards are "
                    "joined by PCI Express alone.",
                    numbers={"prefill_gain": prompt_s / other_s, "pipeline_parallel_size": layout.pipeline_parallel},
                )
            return


def _raise_utilization(findings: VllmFindings) -> Iterator[Advice]:
    """A larger share would hold what is asked for."""
    choice = findings.choice
    run = choice.deployment.run
    if choice.fits or run.utilization >= _LARGEST_UTILIZATION or findings.request.engine.name != "vllm":
        return
    gained = [
        round((_LARGEST_UTILIZATION - run.utilization) * findings.rig.gpus[rank.card].total_bytes)
        for rank in choice.deployment.ranks
    ]
    blocks = max(choice.needed_blocks, choice.capacity.request_blocks) + 1
    if all(
        rank.available_bytes + more >= blocks * rank.block_bytes
        for rank, more in zip(choice.deployment.ranks, gained, strict=True)
    ):
        yield Advice(
            code="raise-utilization",
            message=f"With gpu_memory_utilization {_LARGEST_UTILIZATION} it fits, on cards that run nothing else.",
            numbers={"gpu_memory_utilization": _LARGEST_UTILIZATION, "gained_bytes": min(gained)},
        )


def _cache_in_eight_bits(findings: VllmFindings) -> Iterator[Advice]:
    """A cache of half the size would hold what is asked for."""
    choice = findings.choice
    if choice.fits or choice.deployment.run.kv_cache_dtype not in ("bfloat16", "float16"):
        return
    blocks = max(choice.needed_blocks, choice.capacity.request_blocks) + 1
    if all(rank.available_bytes * 2 >= blocks * rank.block_bytes for rank in choice.deployment.ranks):
        yield Advice(
            code="eight-bit-cache",
            message="With kv_cache_dtype fp8 the cache takes half as much and it fits.",
            numbers={"kv_cache_dtype": "fp8"},
        )
