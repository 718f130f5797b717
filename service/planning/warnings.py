"""What to know about a plan, as codes with their numbers; one function per warning."""

from collections.abc import Iterator, Sequence

from service.contract.plan import PlanWarning
from service.core.engines.llamacpp.companions import ALONE
from service.core.units import GIB
from service.planning.companion_warnings import companion_warnings
from service.planning.findings import Findings
from service.planning.fit import fit_warnings
from service.planning.shared_warnings import gravest_first, model_references, no_bandwidth, unverified_data


def warnings_of(findings: Findings, about_hardware: Sequence[PlanWarning] = ()) -> list[PlanWarning]:
    """Every warning, the gravest first; those about power and links are the same for every engine."""
    found = [
        *_does_not_fit(findings),
        *_context_beyond_training(findings),
        *_host_offload(findings),
        *_host_memory_unknown(findings),
        *_no_pipeline(findings),
        *fit_warnings(findings),
        *([no_bandwidth(findings.rig)] if findings.speed.decode is None else ()),
        *_draft_layers_not_loaded(findings),
        *(companion_warnings(findings) if findings.companions is not ALONE else ()),
        *(model_references(findings.notes, f"{findings.model.name}:{findings.model.quant}") if findings.notes else ()),
        *unverified_data(findings.rig, findings.gpus),
        *about_hardware,
    ]
    return gravest_first(found)


def _does_not_fit(findings: Findings) -> Iterator[PlanWarning]:
    if findings.choice.fits:
        return
    names = [*(f"{gpu.slug} ({index})" for index, gpu in enumerate(findings.rig.gpus)), "host"]
    for name, need in zip(names, findings.choice.needs, strict=True):
        headroom_bytes = need.headroom_bytes
        if headroom_bytes is not None and headroom_bytes < 0:
            yield PlanWarning(
                code="out-of-memory",
                severity="error",
                message=f"{name} needs {need.total_bytes / GIB:.2f} GiB, {-headroom_bytes / GIB:.2f} more than it has.",
                numbers={
                    "device": name,
                    "total_bytes": need.total_bytes,
                    "usable_bytes": need.usable_bytes or 0,
                    "shortfall_bytes": -headroom_bytes,
                },
            )


def _context_beyond_training(findings: Findings) -> Iterator[PlanWarning]:
    trained, used = findings.facts.trained_context_tokens, findings.placement.ctx.n_ctx_seq
    if used > max(trained, 0) and findings.choice.context_tokens > trained:
        yield PlanWarning(
            code="context-beyond-training",
            severity="warning",
            message=f"{used:,} tokens of context per stream are more than the {trained:,} the model was trained for: "
            "answers degrade unless its rope scaling is set for it.",
            numbers={"context_tokens": used, "trained_context_tokens": trained},
        )


def _host_offload(findings: Findings) -> Iterator[PlanWarning]:
    if not findings.offloaded:
        return
    host = findings.placement.host
    yield PlanWarning(
        code="host-offload",
        severity="warning",
        message=f"The host holds {host.weights_bytes / GIB:.2f} GiB of weights and {host.kv_bytes / GIB:.2f} GiB of "
        "cache: what lies there is read at the speed of main memory.",
        numbers={
            "host_layers": findings.layers_on_host,
            "host_weights_bytes": host.weights_bytes,
            "host_expert_bytes": host.weights.expert_bytes,
            "host_kv_bytes": host.kv_bytes,
        },
    )


def _host_memory_unknown(findings: Findings) -> Iterator[PlanWarning]:
    needs_host = findings.offloaded or not findings.rig.gpus
    if needs_host and findings.rig.host.ram_bytes is None:
        total = findings.placement.host.total_bytes
        yield PlanWarning(
            code="host-memory-unknown",
            severity="info",
            message=f"The host needs {total / GIB:.2f} GiB; whether it has that is not checked without "
            "rig.host.ram_bytes.",
            numbers={"host_bytes": total},
        )


def _no_pipeline(findings: Findings) -> Iterator[PlanWarning]:
    choice = findings.choice
    if choice.fell_back:
        yield PlanWarning(
            code="no-pipeline",
            severity="info",
            message="Compute buffers for a pipeline over the cards do not fit: llama.cpp says so at start and works "
            "without, which slows prompts down.",
            numbers={"sched_copies": choice.placement.sched_copies},
        )


def _draft_layers_not_loaded(findings: Findings) -> Iterator[PlanWarning]:
    hp = findings.choice.question.hp
    if hp.n_layer_nextn == 0 or hp.router_layer >= 0 or findings.companions.load_mtp:
        return
    yield PlanWarning(
        code="mtp-not-loaded",
        severity="info",
        message=f"The model's {hp.n_layer_nextn} draft (MTP) layers are not loaded: speculation was not asked for.",
        numbers={"mtp_layers": hp.n_layer_nextn},
    )
