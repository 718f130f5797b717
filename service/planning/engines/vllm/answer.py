"""A choice of vLLM as the Plan of the contract."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from service.contract.plan import (
    Alternative,
    Command,
    CommandNote,
    DevicePlan,
    HostPlan,
    ModelSummary,
    Plan,
    VllmEnginePlan,
)
from service.contract.speed import BreakdownStep, SpeedPlan
from service.core.engines.vllm.choices import VllmChoice
from service.core.engines.vllm.command import command_of
from service.core.engines.vllm.deployment import Rank
from service.core.engines.vllm.formats import FORMATS
from service.core.memory import CONTEXT_STEP_TOKENS
from service.core.units import GIB
from service.planning.engines.vllm.advice import advice_of
from service.planning.engines.vllm.explanation import explanation_of
from service.planning.engines.vllm.findings import RULES_VERSION, VllmFindings, data_version
from service.planning.engines.vllm.warnings import warnings_of
from service.planning.engines.vllm.work import work_of
from service.planning.estimates import around
from service.planning.hardware.answer import hardware_of
from service.planning.identity import DIGEST_CHARACTERS, ID_PREFIX, digest, stated_beside_names

MOST_ALTERNATIVES: Final = 4


def plan_of(findings: VllmFindings, *, in_words: bool = True) -> Plan:
    """Shape everything found as the contract's Plan; in_words: with advice and explanation, else figures alone."""
    choice, verdict = findings.choice, findings.verdict
    hardware = hardware_of(findings.rig, work_of(findings))
    workload = findings.request.workload.model_copy(update={"context_tokens": choice.context_tokens})
    return Plan(
        id=_plan_id(findings),
        model=_model(findings),
        workload=workload,
        engine=_engine(findings),
        assumptions=findings.request.assumptions,
        fits=verdict == "fits",
        verdict=verdict,
        devices=_devices(findings),
        host=_host(findings),
        companions=[],
        max_context_tokens=max_context_tokens(findings),
        shortfall_bytes=findings.shortfall_bytes,
        speed=_speed(findings),
        command=_command(findings),
        power=hardware.power,
        links=hardware.links,
        warnings=warnings_of(findings, hardware.warnings),
        advice=advice_of(findings) if in_words else [],
        alternatives=list(alternatives_of(findings)),
        explanation=[*explanation_of(findings), *hardware.steps] if in_words else [],
    )


def alternatives_of(findings: VllmFindings) -> Iterator[Alternative]:
    """Other ways that fit, the best first, no two of them alike."""
    seen = {_label(findings.choice)}
    for other in findings.others:
        label = _label(other)
        if not other.fits or label in seen:
            continue
        seen.add(label)
        if len(seen) > MOST_ALTERNATIVES + 1:
            return
        yield _alternative(replace(findings, choice=other, others=()), label)


def _label(choice: VllmChoice) -> str:
    """Sizes in words."""
    layout = choice.deployment.layout
    if len(layout.cards) == 1:
        return f"one card ({choice.question.rig.gpus[layout.cards[0]].slug})"
    sizes = (("tensor", layout.tensor_parallel), ("pipeline", layout.pipeline_parallel), ("data", layout.data_parallel))
    return ", ".join(f"{kind} parallel {size}" for kind, size in sizes if size > 1)


def _alternative(findings: VllmFindings, label: str) -> Alternative:
    speed = _speed(findings)
    return Alternative(
        label=label,
        engine=_engine(findings),
        verdict=findings.verdict,
        decode_tokens_per_s=None if speed is None else speed.decode_tokens_per_s,
        prefill_tokens_per_s=None if speed is None else speed.prefill_tokens_per_s,
        max_context_tokens=max_context_tokens(findings),
        busiest_device_bytes=max(device.total_bytes for device in _devices(findings)),
        argv=_command(findings).argv,
    )


def max_context_tokens(findings: VllmFindings) -> int:
    """The largest context of all streams together that fits, in steps of 256."""
    choice = findings.choice
    total = choice.longest_tokens * choice.question.streams
    return total // CONTEXT_STEP_TOKENS * CONTEXT_STEP_TOKENS


def _plan_id(findings: VllmFindings) -> str:
    question = stated_beside_names(findings.request)
    resolved = [findings.named.model.name, *findings.named.notes, RULES_VERSION, data_version(findings)]
    return ID_PREFIX + digest([question, *resolved])[:DIGEST_CHARACTERS]


def _model(findings: VllmFindings) -> ModelSummary:
    model = findings.named.model
    first = findings.choice.deployment
    return ModelSummary(
        name=model.name,
        id=model.id,
        architecture=model.architecture,
        quant=model.scheme,
        parameters=model.parameters,
        active_parameters=model.active_parameters,
        tensor_data_bytes=first.whole_bytes,
        trained_context_tokens=model.trained_context_tokens,
    )


def _engine(findings: VllmFindings) -> VllmEnginePlan:
    choice = findings.choice
    deployment, settings, capacity = choice.deployment, choice.question.settings, choice.capacity
    layout, run = deployment.layout, deployment.run
    return VllmEnginePlan(
        name="vllm",
        version=settings.version,
        date=settings.date,
        tensor_parallel_size=layout.tensor_parallel,
        pipeline_parallel_size=layout.pipeline_parallel,
        data_parallel_size=layout.data_parallel,
        pp_layer_partition=list(layout.partition),
        gpu_memory_utilization=run.utilization,
        max_model_len=choice.request_tokens,
        max_num_batched_tokens=run.batch.max_num_batched_tokens,
        max_num_seqs=run.batch.max_num_seqs,
        kv_cache_dtype=run.kv_cache_dtype,
        enforce_eager=run.eager,
        cpu_offload_gib=run.offload_bytes / GIB,
        enable_expert_parallel=layout.expert_parallel,
        rules_version=RULES_VERSION,
        dtype=run.dtype,
        quantization=FORMATS[findings.named.model.scheme].method,
        block_size=deployment.cache.block_tokens,
        num_gpu_blocks=capacity.blocks,
        kv_cache_tokens=capacity.tokens,
        max_concurrency=capacity.concurrency,
        available_kv_bytes=max(0, min(rank.available_bytes for rank in deployment.ranks)),
    )


def kv_bytes(findings: VllmFindings, rank: Rank) -> int:
    """The cache that vLLM allocates on a rank; where it would not start, what the question needs there."""
    choice = findings.choice
    blocks = choice.capacity.blocks
    if not choice.fits:
        blocks = max(choice.needed_blocks, choice.capacity.request_blocks) + 1
    return blocks * rank.block_bytes


def usable_bytes(findings: VllmFindings, rank: Rank) -> int:
    """What vLLM may use of a card: its share, and no more than the card has free."""
    return min(rank.requested_bytes, findings.rig.gpus[rank.card].usable_bytes)


def _devices(findings: VllmFindings) -> list[DevicePlan]:
    by_card = {rank.card: (number, rank) for number, rank in enumerate(findings.choice.deployment.ranks)}
    return [
        _device(findings, card, *by_card[card]) if card in by_card else _idle(findings, card)
        for card in range(len(findings.rig.gpus))
    ]


def _device(findings: VllmFindings, card: int, number: int, rank: Rank) -> DevicePlan:
    gpu, choice = findings.rig.gpus[card], findings.choice
    speed = choice.speed
    kv, scratch = kv_bytes(findings, rank), rank.scratch
    graphs = scratch.graph_bytes if choice.deployment.run.rules.subtracts_graphs else 0
    compute = scratch.activation_bytes + graphs
    total = rank.weights_bytes + kv + compute + scratch.outside_bytes
    usable = usable_bytes(findings, rank)
    in_replica = number % len(speed.rank_s) if speed else 0
    return DevicePlan(
        index=card,
        gpu=gpu.slug,
        backend=gpu.backend,
        layers=[[rank.blocks.start, rank.blocks.stop]],
        holds_output=rank.blocks.stop == len(choice.question.model.layers),
        weights_bytes=rank.weights_bytes,
        kv_bytes=kv,
        compute_bytes=compute,
        overhead_bytes=scratch.outside_bytes,
        companion_bytes=0,
        total_bytes=total,
        usable_bytes=usable,
        headroom_bytes=usable - total,
        read_bytes_per_token=speed.rank_reads[in_replica] if speed else 0,
        decode_s=speed.rank_s[in_replica] if speed else None,
    )


def _idle(findings: VllmFindings, card: int) -> DevicePlan:
    """A card that this deployment leaves alone."""
    gpu = findings.rig.gpus[card]
    return DevicePlan(
        index=card, gpu=gpu.slug, backend=gpu.backend, layers=[], holds_output=False, weights_bytes=0, kv_bytes=0,
        compute_bytes=0, overhead_bytes=0, companion_bytes=0, total_bytes=0, usable_bytes=gpu.usable_bytes,
        headroom_bytes=gpu.usable_bytes, read_bytes_per_token=0, decode_s=None,
    )  # fmt: skip


def _host(findings: VllmFindings) -> HostPlan:
    ranks = findings.choice.deployment.ranks
    offloaded = sum(rank.offloaded_bytes for rank in ranks)
    return HostPlan(
        weights_bytes=offloaded,
        kv_bytes=0,
        compute_bytes=0,
        companion_bytes=0,
        total_bytes=offloaded,
        read_bytes_per_token=offloaded,
        decode_s=None,
    )


def _speed(findings: VllmFindings) -> SpeedPlan | None:
    speed, workload = findings.choice.speed, findings.request.workload
    if speed is None:
        return None
    prefill_s, width = speed.prefill_s, speed.prefill_range_fraction
    return SpeedPlan(
        decode_tokens_per_s=around(1 / speed.step_s, speed.decode_range_fraction),
        prefill_tokens_per_s=around(workload.prompt_tokens / prefill_s, width) if prefill_s else None,
        ttft_s=around(prefill_s + speed.one_step_s, width) if prefill_s else None,
        aggregate_decode_tokens_per_s=around(workload.parallel / speed.step_s, speed.decode_range_fraction),
        limited_by=speed.limited_by,
        basis=speed.basis,
        breakdown=[BreakdownStep(what=step.what, s=step.s) for step in speed.steps],
    )


def _command(findings: VllmFindings) -> Command:
    command = command_of(findings.choice, findings.named.checkpoint)
    return Command(
        argv=list(command.argv),
        env=dict(command.env),
        text=command.text,
        verify=command.verify,
        notes=[CommandNote(flag=flag, meaning=meaning) for flag, meaning in command.notes],
    )
