"""What runs beside the model, as the contract shapes it."""

from service.contract.companions import CompanionBytes, CompanionPlan, DraftPlan, MmprojPlan
from service.core.engines.llamacpp import placed
from service.core.engines.llamacpp.placement import Placement
from service.core.types import Model
from service.planning.findings import Findings


def draft_plan(findings: Findings) -> DraftPlan | None:
    """The draft with every field resolved, None without one."""
    draft, placement = findings.companions.draft, draft_placement(findings)
    if draft is None or placement is None:
        return None
    first, end = placement.slots.range_of(-1)
    return DraftPlan(
        model=None if draft.model is None else name_of(draft.model),
        spec_type=draft.spec_type,
        n_max=draft.n_max,
        acceptance_fraction=draft.accepted_fraction,
        cache_type_k=placement.ctx.type_k.name,
        cache_type_v=placement.ctx.type_v.name,
        n_gpu_layers=None if draft.model is None else placement.slots.n_slots - (end - first),
        n_cpu_moe=draft.settings.n_cpu_moe or 0,
        override_tensor=[f"{entry.pattern}={entry.buffer_type}" for entry in draft.settings.override_tensor],
    )


def mmproj_plan(findings: Findings) -> MmprojPlan | None:
    """The projector with every field resolved, None without one."""
    projector = findings.companions.projector
    if projector is None:
        return None
    (placement,) = (each for each in findings.placement.companions if each.kind == "mmproj")
    parts = (*placement.devices, placement.host)
    return MmprojPlan(
        model=None if projector.model is None else name_of(projector.model),
        weights_bytes=sum(part.weights.weights_bytes for part in parts),
        offload=not projector.on_host,
    )


def companion_plans(findings: Findings) -> list[CompanionPlan]:
    """Where each companion lies."""
    return [
        CompanionPlan(kind=each.kind, devices=[_bytes(part) for part in each.devices], host=_bytes(each.host))
        for each in findings.placement.companions
    ]


def draft_placement(findings: Findings) -> Placement | None:
    """The placement of the draft's own context, None without a draft."""
    return next((each.placement for each in findings.placement.companions if each.kind == "draft"), None)


def name_of(model: Model) -> str:
    """A model as the catalogue names it, else by its identity."""
    return ":".join(word for word in (model.name, model.quant) if word) or model.id


def _bytes(part: placed.CompanionBytes) -> CompanionBytes:
    return CompanionBytes(
        weights_bytes=part.weights.weights_bytes,
        kv_bytes=part.kv_bytes,
        compute_bytes=part.compute_bytes,
        overhead_bytes=part.overhead_bytes,
        total_bytes=part.total_bytes,
    )
