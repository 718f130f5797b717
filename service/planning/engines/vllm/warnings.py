"""What to know about a plan of vLLM, as codes with their numbers; one function per warning."""

from collections.abc import Iterator, Sequence

from service.contract.plan import PlanWarning
from service.core.engines.vllm.capacity import blocks_of
from service.core.engines.vllm.formats import FORMATS
from service.core.engines.vllm.scratch import RESERVE_ALONE_BYTES, RESERVE_TOGETHER_BYTES
from service.core.units import GIB
from service.planning.engines.vllm.findings import VllmFindings
from service.planning.shared_warnings import gravest_first, model_references, no_bandwidth, unverified_data

_TIGHT_FRACTION = 0.05


def warnings_of(findings: VllmFindings, about_hardware: Sequence[PlanWarning] = ()) -> list[PlanWarning]:
    """Every warning, the gravest first; those about power and links are the same for every engine."""
    found = [
        *_does_not_fit(findings),
        *_free_memory(findings),
        *_state_blocks(findings),
        *_smallest_card(findings),
        *_weight_only(findings),
        *_reserve(findings),
        *_lowered(findings),
        *_checkpoint(findings),
        *_estimates(findings),
        *([no_bandwidth(findings.rig)] if findings.choice.speed is None else ()),
        *model_references(findings.named.notes, f"{findings.named.model.name}:{findings.named.model.scheme}"),
        *unverified_data(findings.rig, findings.gpus),
        *about_hardware,
    ]
    return gravest_first(found)


def _does_not_fit(findings: VllmFindings) -> Iterator[PlanWarning]:
    choice = findings.choice
    if choice.fits:
        return
    blocks = max(choice.needed_blocks, choice.capacity.request_blocks) + 1
    for rank in choice.deployment.ranks:
        missing = blocks * rank.block_bytes - rank.available_bytes
        if missing <= 0:
            continue
        gpu = findings.rig.gpus[rank.card]
        yield PlanWarning(
            code="out-of-memory",
            severity="error",
            message=f"{gpu.slug} ({rank.card}) has {rank.available_bytes / GIB:.2f} GiB for the KV cache and needs "
            f"{blocks * rank.block_bytes / GIB:.2f}: "
            + (
                "No available memory for the cache blocks."
                if rank.available_bytes <= 0
                else f"the estimated maximum model length is {choice.longest_tokens:,}."
            ),
            numbers={
                "device": f"{gpu.slug} ({rank.card})",
                "available_kv_bytes": rank.available_bytes,
                "needed_kv_bytes": blocks * rank.block_bytes,
                "shortfall_bytes": missing,
            },
        )


def _free_memory(findings: VllmFindings) -> Iterator[PlanWarning]:
    """What vLLM checks at start: its share must be free."""
    for rank in findings.choice.deployment.ranks:
        gpu = findings.rig.gpus[rank.card]
        if rank.requested_bytes > gpu.usable_bytes:
            yield PlanWarning(
                code="free-memory",
                severity="error",
                message=f"Free memory on device cuda:{rank.card} ({gpu.usable_bytes / GIB:.2f}/"
                f"{gpu.total_bytes / GIB:.2f} GiB) on startup is less than desired GPU memory utilization "
                f"({findings.choice.deployment.run.utilization:g}, {rank.requested_bytes / GIB:.2f} GiB).",
                numbers={"usable_bytes": gpu.usable_bytes, "requested_bytes": rank.requested_bytes},
            )


def _state_blocks(findings: VllmFindings) -> Iterator[PlanWarning]:
    """Hybrids need a block per sequence to capture full CUDA graphs. Source: config/compilation.py:1526 (0.33.0)."""
    deployment, blocks = findings.choice.deployment, findings.choice.capacity.blocks
    seqs = deployment.run.batch.max_num_seqs
    if deployment.model.has_state and not deployment.run.eager and seqs > blocks:
        yield PlanWarning(
            code="state-blocks",
            severity="error" if blocks == 0 else "warning",
            message=f"max_num_seqs ({seqs}) exceeds available Mamba cache blocks ({blocks}): lower max_num_seqs to at "
            f"most {blocks}, or CUDA graphs are not captured.",
            numbers={"max_num_seqs": seqs, "num_gpu_blocks": blocks},
        )


def _smallest_card(findings: VllmFindings) -> Iterator[PlanWarning]:
    """Ranks of a group hold the same, so the smallest card sets the cache of all; what the others leave is lost."""
    deployment, blocks = findings.choice.deployment, findings.choice.capacity.blocks
    lost = {
        rank.card: (blocks_of(rank.available_bytes, rank.block_bytes) - blocks) * rank.block_bytes
        for rank in deployment.ranks
    }
    most = max(lost.values(), default=0)
    if most > _TIGHT_FRACTION * max(findings.rig.gpus[card].total_bytes for card in lost):
        card = max(lost, key=lambda each: lost[each])
        yield PlanWarning(
            code="smallest-card-limits",
            severity="warning",
            message=f"Every rank gets the {blocks:,} blocks of the rank that has the fewest: {most / GIB:.2f} GiB of "
            f"{findings.rig.gpus[card].slug} ({card}) stay unused, {sum(lost.values()) / GIB:.2f} GiB of all cards.",
            numbers={"unused_bytes": list(lost.values()), "num_gpu_blocks": blocks},
        )


def _weight_only(findings: VllmFindings) -> Iterator[PlanWarning]:
    scheme = FORMATS[findings.named.model.scheme]
    if scheme.native_capability is None:
        return
    old = [
        gpu.slug
        for gpu in findings.rig.gpus
        if gpu.compute_capability is not None and gpu.compute_capability < scheme.native_capability
    ]
    if old:
        yield PlanWarning(
            code="weight-only",
            severity="info",
            message=f"{', '.join(dict.fromkeys(old))} cannot compute in {scheme.name}: weights are stored in it and "
            "widened to 16 bits as they are multiplied, which saves memory and not arithmetic.",
            numbers={"gpus": list(dict.fromkeys(old))},
        )


def _reserve(findings: VllmFindings) -> Iterator[PlanWarning]:
    """Context, NCCL and graphs above their estimate lie outside vLLM's share."""
    deployment = findings.choice.deployment
    together = len(deployment.layout.cards) > 1
    reserve = RESERVE_TOGETHER_BYTES if together else RESERVE_ALONE_BYTES
    for card in sorted({rank.card for rank in deployment.ranks}):
        gpu = findings.rig.gpus[card]
        rank = next(rank for rank in deployment.ranks if rank.card == card)
        left = gpu.total_bytes - rank.requested_bytes
        if left < reserve:
            yield PlanWarning(
                code="little-reserve",
                severity="warning",
                message=f"{left / GIB:.2f} GiB of {gpu.slug} ({card}) stay outside vLLM's share; context, NCCL buffers "
                f"and CUDA graphs above their estimate need about {reserve / GIB:.2f}.",
                numbers={"outside_bytes": left, "reserve_bytes": reserve},
            )
            return


def _lowered(findings: VllmFindings) -> Iterator[PlanWarning]:
    if findings.choice.lowered:
        batch = findings.choice.deployment.run.batch
        yield PlanWarning(
            code="batch-lowered",
            severity="info",
            message=f"vLLM's own batch sizes leave no room for the cache: max_num_seqs is {batch.max_num_seqs} and "
            f"max_num_batched_tokens {batch.max_num_batched_tokens} instead.",
            numbers={
                "max_num_seqs": batch.max_num_seqs,
                "max_num_batched_tokens": batch.max_num_batched_tokens,
            },
        )


def _checkpoint(findings: VllmFindings) -> Iterator[PlanWarning]:
    if not findings.named.is_published:
        yield PlanWarning(
            code="checkpoint-not-known",
            severity="info",
            message=f"Where {findings.named.model.name} is published as {findings.named.model.scheme} is not known "
            f"here: the command takes it from the folder {findings.named.checkpoint}.",
            numbers={"checkpoint": findings.named.checkpoint},
        )


def _estimates(findings: VllmFindings) -> Iterator[PlanWarning]:
    rank = findings.choice.deployment.ranks[0]
    yield PlanWarning(
        code="estimated-memory",
        severity="info",
        message="vLLM measures activations and CUDA graphs when it starts; here they are estimates: "
        f"{rank.scratch.activation_bytes / GIB:.2f} and {rank.scratch.graph_bytes / GIB:.2f} GiB a card.",
        numbers={
            "activation_bytes": rank.scratch.activation_bytes,
            "graph_bytes": rank.scratch.graph_bytes,
            "outside_bytes": rank.scratch.outside_bytes,
        },
    )
