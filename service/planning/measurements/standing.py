"""What a planned figure belongs to: its backend, cards, model and configuration, in words that are keys."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from math import log
from typing import Final

from service.contract.estimate import Estimate
from service.contract.plan import LlamaCppEnginePlan, Plan, VllmEnginePlan
from service.contract.request import PlanRequest
from service.contract.rig import GpuRequest
from service.core.correction_constants import CALIBRATED_SHARES, SHARES, Quantity
from service.core.corrections import Place, Standing, standing

# low and high of a range cover about 85 % of measurements: 1.44 standard deviations to either side
RANGE_IN_DEVIATIONS: Final = 1.44
_LEAST_LOG_SD: Final = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Configured:
    """A plan's places but for the quantity: made once, used for decode and prefill."""

    group: str
    general: tuple[tuple[Place, float], ...]
    setting: str
    build: str
    decode_at: str
    prefill_at: str
    parallel: int
    is_calibrated: bool


def configured(request: PlanRequest, plan: Plan) -> Configured:
    """Places of everything planned; the plan says what the request left open."""
    backends = "+".join(sorted({device.backend for device in plan.devices})) or "cpu"
    cards = _cards(request, plan)
    model = _model(plan)
    moe = "mixture" if plan.model.active_parameters < plan.model.parameters else "dense"
    quant = f"{plan.model.quant} {moe}"
    together = "+".join(sorted(cards))
    general: list[tuple[Place, float]] = [
        (("backend", backends), 1.0),
        (("quant", f"{quant} on {backends}"), 1.0),
        (("model", f"{model} on {backends}"), 1.0),
    ]
    general += [(("card", card), share) for card, share in cards.items()]
    general += [(("card-quant", f"{quant} on {together}"), 1.0), (("card-model", f"{model} on {together}"), 1.0)]
    work, way = plan.workload, _way(plan)
    basis = None if plan.speed is None else plan.speed.basis
    return Configured(
        group=f"{plan.engine.name} {backends} {way}",
        general=tuple(general),
        setting=_setting(request, plan, model),
        build=plan.engine.version or plan.engine.date or "the newest build",
        decode_at=f"at {work.cached_tokens + work.prompt_tokens + work.output_tokens / 2:g} tokens",
        prefill_at=f"of {work.prompt_tokens} tokens behind {work.cached_tokens}, {_step_tokens(plan)} at a time",
        parallel=work.parallel,
        is_calibrated=way == "cards" and basis == "fitted",
    )


def _step_tokens(plan: Plan) -> int:
    """Prompt tokens that are processed at once."""
    at_once = plan.engine.n_ubatch if plan.engine.name == "llama.cpp" else plan.engine.max_num_batched_tokens
    return min(at_once, plan.workload.prompt_tokens)


def standing_of(found: Configured, quantity: Quantity, estimate: Estimate) -> Standing:
    """The standing of one figure; its range says how uncertain it is."""
    where = found.prefill_at if quantity == "prefill" else f"{found.decode_at}, {found.parallel} streams"
    configuration = f"{quantity} {where}, {found.setting}"
    parts: dict[Place, float] = dict(found.general)
    parts["setup", found.setting] = 1.0
    parts["configuration", configuration] = 1.0
    parts["build", f"{configuration}, {found.build}"] = 1.0
    log_sd = log(estimate.high / estimate.low) / (2 * RANGE_IN_DEVIATIONS)
    shares = CALIBRATED_SHARES if found.is_calibrated else SHARES
    return standing(f"{found.group} {quantity}", parts, shares, log_sd=max(_LEAST_LOG_SD, log_sd))


def decode_quantity(parallel: int) -> Quantity:
    """One stream reads, many streams compute: what is wrong with one figure need not be with the other."""
    return "decode" if parallel == 1 else "batch"


def _model(plan: Plan) -> str:
    """Models with the same weights in the same types are one: they run the same computation."""
    facts = plan.model
    return f"{facts.architecture} {facts.parameters / 1e9:.4g}B {facts.quant} of {facts.tensor_data_bytes / 1e6:.0f} MB"


def _cards(request: PlanRequest, plan: Plan) -> dict[str, float]:
    """Cards that hold weights, by their share of the devices; the processor where there is none."""
    busy = [device.gpu for device in plan.devices if device.weights_bytes]
    if not busy:
        return {request.rig.host.cpu or "an unnamed processor": 1.0}
    return {gpu: count / len(busy) for gpu, count in Counter(busy).items()}


def _way(plan: Plan) -> str:
    """How the work is divided, as far as it makes other physics."""
    if not any(device.weights_bytes for device in plan.devices):
        return "host"
    if plan.verdict == "fits_with_host_offload" or (plan.host.decode_s or 0) > 0:
        return "offload"
    way = split_of(plan)
    return way if way in ("row", "tensor") else "cards"


def split_of(plan: Plan) -> str:
    """How cards share the model: "row" and "tensor" work on every layer together, others one after the other."""
    if plan.engine.name == "vllm":
        return "tensor" if plan.engine.tensor_parallel_size > 1 else "layer"
    return plan.engine.split_mode


def _setting(request: PlanRequest, plan: Plan, model: str) -> str:
    """Everything that decides a speed but for the build, the depth and the streams."""
    layers = "; ".join(
        f"{device.gpu} {device.backend} {','.join(f'{first}-{end}' for first, end in device.layers)}"
        + (" output" if device.holds_output else "")
        for device in plan.devices
        if device.weights_bytes
    )
    words = [
        model,
        layers or f"on {request.rig.host.cpu or 'an unnamed processor'}",
        *(_llamacpp(plan.engine) if plan.engine.name == "llama.cpp" else _vllm(plan.engine)),
        *_rig_options(request),
    ]
    return ", ".join(word for word in words if word)


def _llamacpp(engine: LlamaCppEnginePlan) -> Iterator[str]:
    if engine.split_mode in ("row", "tensor"):
        yield f"split {engine.split_mode}"
    yield f"flash attention {'on' if engine.flash_attn else 'off'}"
    yield f"cache {engine.cache_type_k}/{engine.cache_type_v}"
    if not engine.kv_offload:
        yield "cache on the host"
    if engine.n_cpu_moe:
        yield f"experts of {engine.n_cpu_moe} blocks on the host"
    yield " ".join(engine.override_tensor)


def _vllm(engine: VllmEnginePlan) -> Iterator[str]:
    yield f"TP {engine.tensor_parallel_size} PP {engine.pipeline_parallel_size} DP {engine.data_parallel_size}"
    yield f"{engine.quantization or engine.dtype}, cache {engine.kv_cache_dtype}"
    if engine.enforce_eager:
        yield "eager"
    if engine.enable_expert_parallel:
        yield "expert parallel"
    if engine.cpu_offload_gib:
        yield f"{engine.cpu_offload_gib:g} GiB offloaded"


def _rig_options(request: PlanRequest) -> Iterator[str]:
    """What the request says about cards and links beside their names."""
    rig = request.rig
    for index, entry in enumerate(rig.gpus):
        if isinstance(entry, GpuRequest):
            stated = {"W": entry.power_limit_w, "PCIe generation": entry.pcie_gen, "lanes": entry.pcie_lanes}
            told = " ".join(f"{value:g} {what}" for what, value in stated.items() if value is not None)
            if told:
                yield f"entry {index} at {told}"
    if rig.nvlink is not None:
        yield f"NVLink {rig.nvlink}"
    if rig.p2p is not None:
        yield f"P2P {rig.p2p}"
    if rig.host.ram_bandwidth_bytes_per_s is not None and not rig.gpus:
        yield f"memory at {rig.host.ram_bandwidth_bytes_per_s:g} bytes/s"
