"""A choice as the Plan of the contract."""

from functools import lru_cache
from typing import Final

from pydantic import TypeAdapter

from service.contract.plan import (
    Alternative,
    DevicePlan,
    HostPlan,
    LlamaCppEnginePlan,
    ModelSummary,
    Plan,
)
from service.contract.request import WorkloadRequest
from service.core.engines.llamacpp.needs import overhead_of
from service.core.memory import shortfall_bytes
from service.core.model_facts import model_facts
from service.core.types import Model
from service.planning.advice import advice_of
from service.planning.alternatives import RunnerUp, runners_up
from service.planning.command_answer import command_plan
from service.planning.companion_answer import companion_plans, draft_plan, mmproj_plan
from service.planning.explanation import explanation_of
from service.planning.findings import Findings
from service.planning.hardware.answer import hardware_of
from service.planning.hardware.llamacpp import work_of
from service.planning.identity import RULES_VERSION, plan_id
from service.planning.speed_answer import speed_plan
from service.planning.warnings import warnings_of


def plan_of(findings: Findings, *, in_words: bool = True) -> Plan:
    """Shape everything found as the contract's Plan; in_words: with advice and explanation, else figures alone."""
    verdict, hardware = findings.verdict, hardware_of(findings.rig, work_of(findings))
    others = runners_up(findings)
    return Plan(
        id=plan_id(findings),
        model=_model(findings.model),
        workload=_workload(findings),
        engine=_engine(findings),
        assumptions=findings.request.assumptions,
        fits=verdict == "fits",
        verdict=verdict,
        devices=_devices(findings),
        host=_host(findings),
        companions=companion_plans(findings),
        max_context_tokens=findings.max_context_tokens,
        shortfall_bytes=shortfall_bytes(findings.choice.needs),
        speed=speed_plan(findings),
        command=command_plan(findings),
        power=hardware.power,
        links=hardware.links,
        warnings=warnings_of(findings, hardware.warnings),
        advice=advice_of(findings, others) if in_words else [],
        alternatives=[_alternative(each) for each in others],
        explanation=[*explanation_of(findings, others), *hardware.steps] if in_words else [],
    )


def _alternative(other: RunnerUp) -> Alternative:
    speed = speed_plan(other.findings)
    return Alternative(
        label=other.label,
        engine=_engine(other.findings),
        verdict=other.findings.verdict,
        decode_tokens_per_s=speed.decode_tokens_per_s if speed else None,
        prefill_tokens_per_s=speed.prefill_tokens_per_s if speed else None,
        max_context_tokens=other.findings.max_context_tokens,
        busiest_device_bytes=max((need.total_bytes for need in other.findings.choice.needs[:-1]), default=0),
        argv=command_plan(other.findings).argv,
    )


def _workload(findings: Findings) -> WorkloadRequest:
    stated, context_tokens = findings.request.workload, findings.choice.context_tokens
    if stated.context_tokens == context_tokens:
        return stated
    return stated.model_copy(update={"context_tokens": context_tokens})


@lru_cache(maxsize=256)
def _model(model: Model) -> ModelSummary:
    facts = model_facts(model)
    return ModelSummary(
        name=model.name,
        id=model.id,
        architecture=model.architecture,
        quant=model.quant,
        parameters=facts.parameters,
        active_parameters=facts.active_parameters,
        tensor_data_bytes=facts.tensor_data_bytes,
        trained_context_tokens=facts.trained_context_tokens,
    )


def _engine(findings: Findings) -> LlamaCppEnginePlan:
    settings, placement = findings.choice.settings, findings.placement
    ctx = placement.ctx
    return LlamaCppEnginePlan(
        name="llama.cpp",
        version=settings.version,
        date=settings.date,
        tool=settings.tool,
        split_mode=placement.split_mode,
        main_gpu=settings.main_gpu,
        devices=None if settings.devices is None else list(placement.device_order),
        tensor_split=_shares(findings),
        n_gpu_layers=placement.slots.n_slots - _slots_on_host(findings),
        n_batch=ctx.n_batch,
        n_ubatch=ctx.n_ubatch,
        flash_attn=ctx.flash_attn,
        cache_type_k=ctx.type_k.name,
        cache_type_v=ctx.type_v.name,
        kv_unified=ctx.kv_unified,
        swa_full=ctx.swa_full,
        n_cpu_moe=min(settings.n_cpu_moe or 0, findings.choice.question.hp.n_layer_all),
        override_tensor=[f"{entry.pattern}={entry.buffer_type}" for entry in settings.override_tensor],
        kv_offload=settings.kv_offload,
        fit=findings.fit is not None,
        draft=draft_plan(findings),
        mmproj=mmproj_plan(findings),
        rules_version=RULES_VERSION,
        pipeline_parallel=placement.pipeline_parallel,
        sched_copies=placement.sched_copies,
        fit_args=None if findings.fit is None else list(findings.fit.arguments),
        n_ctx=ctx.n_ctx,
        n_ctx_seq=ctx.n_ctx_seq,
    )


def _slots_on_host(findings: Findings) -> int:
    first, end = findings.placement.slots.range_of(-1)
    return end - first


def _shares(findings: Findings) -> list[float] | None:
    """Shares as given or chosen; where the engine divides by free memory, the slots that come of it: they repeat it."""
    settings, slots = findings.choice.settings, findings.placement.slots
    if settings.tensor_split is not None:
        return list(settings.tensor_split)
    cards = findings.placement.device_order
    if findings.placement.split_mode != "layer" or len(cards) < 2:
        return None
    ranges = (slots.range_of(card) for card in cards)
    return [float(end - first) for first, end in ranges]


# validated together: four cards take 13 µs, one DevicePlan after the other 19 µs
_DEVICES: Final = TypeAdapter(list[DevicePlan])


def _devices(findings: Findings) -> list[DevicePlan]:
    choice, decode, reads = findings.choice, findings.speed.decode, findings.speed.device_reads
    device_s = None if decode is None else decode.device_s
    return _DEVICES.validate_python(
        [
            {
                "index": index,
                "gpu": gpu.slug,
                "backend": gpu.backend,
                "layers": [list(layers) for layers in placed.layers],
                "holds_output": placed.holds_output,
                "weights_bytes": placed.weights.weights_bytes,
                "kv_bytes": placed.kv_bytes,
                "compute_bytes": placed.compute_bytes,
                "overhead_bytes": overhead_of(placed, need),
                "companion_bytes": placed.companion_bytes,
                "total_bytes": need.total_bytes,
                "usable_bytes": gpu.usable_bytes,
                "headroom_bytes": gpu.usable_bytes - need.total_bytes,
                "read_bytes_per_token": reads[index],
                "decode_s": None if device_s is None else device_s[index],
            }
            for index, (gpu, placed, need) in enumerate(
                zip(findings.rig.gpus, choice.placement.devices, choice.needs, strict=False)
            )
        ]
    )


def _host(findings: Findings) -> HostPlan:
    host, decode = findings.placement.host, findings.speed.decode
    return HostPlan(
        weights_bytes=host.weights_bytes,
        kv_bytes=host.kv_bytes,
        compute_bytes=host.compute_bytes,
        companion_bytes=host.companion_bytes,
        total_bytes=host.total_bytes,
        read_bytes_per_token=findings.speed.host_read,
        decode_s=None if decode is None else decode.host_s,
    )
