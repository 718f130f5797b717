"""The steps of an answer about vLLM, one sentence each, with the numbers they used."""

from collections.abc import Iterator

from service.core.engines.vllm.deployment import Rank
from service.core.engines.vllm.formats import FORMATS
from service.core.engines.vllm.kv_cache import kinds_of
from service.core.engines.vllm.speed_constants import SOURCE
from service.core.units import GIB
from service.planning.engines.vllm.findings import VllmFindings

_KINDS = {
    "full": "full attention", "latent": "latents", "sliding": "sliding windows", "chunked": "chunked attention",
    "state": "recurrent state",
}  # fmt: skip


def explanation_of(findings: VllmFindings) -> list[str]:
    """All steps in order."""
    return [
        *_model_steps(findings),
        *_layout_steps(findings),
        *_rank_steps(findings),
        *_cache_steps(findings),
        *_context_steps(findings),
        *_speed_steps(findings),
    ]


def _model_steps(findings: VllmFindings) -> Iterator[str]:
    model, scheme = findings.named.model, FORMATS[findings.named.model.scheme]
    yield (
        f"{model.name} has {len(model.layers)} layers and {model.parameters / 1e9:.2f} billion weights; as "
        f"{scheme.name} ({scheme.description}) they take {findings.choice.deployment.whole_bytes / 1e9:.2f} GB."
    )
    if model.derived is not None:
        yield f"The checkpoint is {model.derived}."
    if model.vision is not None:
        yield "Its image encoder is loaded with it, in 16 bits."


def _layout_steps(findings: VllmFindings) -> Iterator[str]:
    layout = findings.choice.deployment.layout
    yield (
        f"{len(layout.cards)} of {len(findings.rig.gpus)} cards work: tensor parallel {layout.tensor_parallel}, "
        f"pipeline parallel {layout.pipeline_parallel}, data parallel "
        f"{layout.data_parallel}."
    )
    if layout.pipeline_parallel > 1:
        yield f"The stages hold {', '.join(map(str, layout.partition))} layers."


def _rank_steps(findings: VllmFindings) -> Iterator[str]:
    seen: set[tuple[str, range]] = set()
    for rank in findings.choice.deployment.ranks:
        gpu = findings.rig.gpus[rank.card]
        if (gpu.slug, rank.blocks) not in seen:
            seen.add((gpu.slug, rank.blocks))
            yield _rank_step(findings, rank, gpu.slug, gpu.total_bytes)


def _rank_step(findings: VllmFindings, rank: Rank, slug: str, total_bytes: int) -> str:
    run, estimates = findings.choice.deployment.run, rank.scratch
    graphs = f", CUDA graphs {estimates.graph_bytes / GIB:.2f}" if run.rules.subtracts_graphs else ""
    return (
        f"Of {slug}'s {total_bytes / GIB:.2f} GiB vLLM takes {run.utilization:g}, {rank.requested_bytes / GIB:.2f} "
        f"GiB; weights take {rank.weights_bytes / GIB:.2f}, and by estimate activations "
        f"{estimates.activation_bytes / GIB:.2f}{graphs} and what lies outside PyTorch "
        f"{estimates.outside_bytes / GIB:.2f}: {rank.available_bytes / GIB:.2f} GiB are left for the KV cache."
    )


def _cache_steps(findings: VllmFindings) -> Iterator[str]:
    deployment, capacity = findings.choice.deployment, findings.choice.capacity
    plan = deployment.cache
    groups = ", ".join(f"{count} of {_KINDS[kind]}" for kind, count in kinds_of(plan).items())
    yield (
        f"The cache as {deployment.run.kv_cache_dtype} has {len(plan.groups)} group{'s' * (len(plan.groups) > 1)} "
        f"({groups}) in blocks of {plan.block_tokens} tokens: {capacity.blocks:,} blocks, the fewest of any rank."
    )
    yield (
        f"A request of {findings.choice.request_tokens:,} tokens takes {capacity.request_blocks:,} blocks: the cache "
        f"holds {capacity.tokens:,} tokens, {capacity.concurrency:.2f} such requests at once."
    )


def _context_steps(findings: VllmFindings) -> Iterator[str]:
    choice = findings.choice
    streams = choice.question.streams
    if choice.longest_tokens:
        yield (
            f"With these choices {streams} request{'s' * (streams > 1)} of up to {choice.longest_tokens:,} tokens fit "
            "at once."
        )
    else:
        yield "With these choices no request fits."


def _speed_steps(findings: VllmFindings) -> Iterator[str]:
    speed = findings.choice.speed
    if speed is None:
        return
    parts = ", ".join(f"{step.s * 1e3:.2f} ms ({step.what})" for step in speed.steps)
    yield f"A decode step of {speed.replica_streams} at once takes {speed.step_s * 1e3:.2f} ms: {parts}; {SOURCE}."
