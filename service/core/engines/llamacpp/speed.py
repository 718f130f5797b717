"""Speed of a placement: reads of every device and the host, turned into decode and prefill times."""

from dataclasses import dataclass

from service.core.architectures.hparams import Hparams
from service.core.engines.llamacpp.kv_cache import KvIndex, kv_index
from service.core.engines.llamacpp.question import Choice
from service.core.engines.llamacpp.reads import (
    ReadShape,
    attention_flops,
    read_kv_bytes,
    read_shape,
    read_weights_bytes,
)
from service.core.engines.llamacpp.slots import CPU
from service.core.engines.llamacpp.versions import version_rules
from service.core.engines.llamacpp.weights import Weights
from service.core.prefill import PrefillWork, prefill_s
from service.core.speed import Assumptions, Decode, DecodeWork, Processor, decode, gpu_processor, host_processor
from service.core.speed_constants import BACKENDS, OLD_BUILD_OVERHEAD_FACTOR, OLD_BUILDS_BEFORE
from service.core.types import Backend, Rig, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """Reads and times of a choice.

    device_reads, host_read: bytes for one token of one stream. decode: one step of all streams, None where a device
    that works has no known bandwidth. prefill_s: the whole prompt of one stream, None where a rate is not known.
    """

    device_reads: tuple[int, ...]
    host_read: int
    decode: Decode | None
    prefill_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """What speed is computed from, for one choice."""

    hp: Hparams
    shape: ReadShape
    rig: Rig
    choice: Choice
    workload: Workload
    assumptions: Assumptions
    caches: KvIndex
    processors: tuple[Processor, ...]
    host: Processor

    @property
    def depth_tokens(self) -> float:
        """Mean depth of the tokens generated."""
        return self.workload.cached_tokens + self.workload.prompt_tokens + self.workload.output_tokens / 2

    @property
    def parallel_devices(self) -> bool:
        """Whether the cards work on the same layer at the same time."""
        return self.choice.settings.split_mode in ("row", "tensor")


def speed_of(choice: Choice, assumptions: Assumptions) -> Speed:
    """Reads and times of `choice`."""
    work = _work(choice, assumptions)
    one = [_decode_work(work, device, tokens=1) for device in (*range(len(work.rig.gpus)), CPU)]
    return Speed(
        device_reads=tuple(device.read_bytes for device in one[:-1]),
        host_read=one[-1].read_bytes,
        decode=_decode(work),
        prefill_s=_prefill_s(work),
    )


def decode_of(choice: Choice, assumptions: Assumptions) -> Decode | None:
    """One decode step of `choice`, None where a card that works has no known bandwidth."""
    return _decode(_work(choice, assumptions))


def _work(choice: Choice, assumptions: Assumptions) -> _Work:
    question = choice.question
    hp, rig = question.hp, question.rig
    return _Work(
        hp=hp,
        shape=read_shape(question.model, hp),
        rig=rig,
        choice=choice,
        workload=question.workload,
        assumptions=assumptions,
        caches=kv_index(hp, choice.placement.ctx),
        processors=tuple(gpu_processor(gpu, assumptions) for gpu in rig.gpus),
        host=host_processor(rig.host, rig.gpus),
    )


def _weights(work: _Work, device: int) -> Weights:
    placement = work.choice.placement
    return placement.host.weights if device == CPU else placement.devices[device].weights


def _decode_work(work: _Work, device: int, *, tokens: int) -> DecodeWork:
    """One step of `tokens` streams on a device or the host."""
    weights_bytes = read_weights_bytes(_weights(work, device), work.shape, tokens=tokens)
    kernels = work.shape.kernels_before
    first, end = work.choice.placement.slots.range_of(device)
    one_token_bytes = read_weights_bytes(_weights(work, device), work.shape)
    return DecodeWork(
        weights_bytes=weights_bytes,
        kv_bytes=0 if work.assumptions.ignore_kv_reads else tokens * _kv_bytes(work, device),
        kernels=kernels[end] - kernels[first],
        flops=2.0 * tokens * work.shape.elements_per_byte * one_token_bytes,
    )


def _kv_bytes(work: _Work, device: int) -> int:
    """Cache read for one token on a device or the host; without offload of the cache the host reads all of it."""
    placement = work.choice.placement
    if work.parallel_devices and device != CPU:
        return round(_whole_kv(work, 0, work.hp.n_layer_all, "cpu") * _kv_share(work, device))
    if not placement.ctx.offload_kqv:
        return _whole_kv(work, 0, work.hp.n_layer_all, "cpu") if device == CPU else 0
    first, end = placement.slots.range_of(device)
    backend: Backend = "cpu" if device == CPU else work.rig.gpus[device].backend
    last = work.hp.n_layer_all
    return _whole_kv(work, min(first, last), min(end, last), backend)


def _whole_kv(work: _Work, first: int, end: int, backend: Backend) -> int:
    return read_kv_bytes(work.hp, work.caches, first, end, backend, depth_tokens=work.depth_tokens)


def _kv_share(work: _Work, device: int) -> float:
    """Share of the whole cache that lies on a card, where every layer is cut."""
    whole = work.caches.bytes_between(0, work.hp.n_layer_all, "cpu")
    return work.choice.placement.devices[device].kv_bytes / whole if whole else 0.0


def _decode(work: _Work) -> Decode | None:
    streams = work.workload.parallel
    devices = [_decode_work(work, device, tokens=streams) for device in range(len(work.rig.gpus))]
    if any(
        device.read_bytes and processor.bandwidth_bytes_per_s is None
        for device, processor in zip(devices, work.processors, strict=True)
    ):
        return None
    busy = sum(1 for device in devices if device.read_bytes)
    syncs = 2 * work.hp.n_layer if work.parallel_devices and busy > 1 else 0
    settings = work.choice.settings
    as_of = version_rules(settings.version, settings.date).as_of
    old = as_of is not None and as_of.isoformat() < OLD_BUILDS_BEFORE
    return decode(
        list(zip(devices, work.processors, strict=True)),
        (_decode_work(work, CPU, tokens=streams), work.host),
        is_moe=work.shape.n_expert > 0,
        parallel_devices=work.parallel_devices,
        syncs=syncs,
        overhead_factor=OLD_BUILD_OVERHEAD_FACTOR if old else 1.0,
        assumptions=work.assumptions,
    )


def _prefill_s(work: _Work) -> float | None:
    ctx, prompt = work.choice.placement.ctx, work.workload.prompt_tokens
    ubatches = -(-prompt // max(1, ctx.n_ubatch))
    rows = min(prompt, ctx.n_ubatch) * work.shape.used_fraction
    busy = [processor for processor, device in zip(work.processors, work.choice.placement.devices, strict=True)
            if device.weights_bytes]  # fmt: skip
    sync_s = 0.0
    if work.parallel_devices and len(busy) > 1:
        sync_s = 2 * work.hp.n_layer * max(BACKENDS[processor.backend].sync_s for processor in busy)
    return prefill_s(
        [(_prefill_work(work, device), processor) for device, processor in enumerate(work.processors)],
        (_prefill_work(work, CPU), work.host),
        ubatches=ubatches,
        rows_per_expert=rows,
        pipelined=work.choice.placement.pipeline_parallel,
        parallel_devices=work.parallel_devices,
        sync_s=sync_s,
    )


def _prefill_work(work: _Work, device: int) -> PrefillWork:
    weights, shape, prompt = _weights(work, device), work.shape, work.workload.prompt_tokens
    resident = weights.weights_bytes - weights.lookup_bytes - weights.expert_bytes
    used = weights.expert_bytes * shape.used_fraction
    first, end = work.choice.placement.slots.range_of(device)
    layers = max(0, min(end, work.hp.n_layer) - min(first, work.hp.n_layer))
    attention = attention_flops(work.hp, prompt, work.workload.cached_tokens)
    return PrefillWork(
        flops=2.0 * prompt * shape.elements_per_byte * (resident + used),
        expert_flops=2.0 * prompt * shape.elements_per_byte * used,
        attention_flops=attention * layers / work.hp.n_layer if work.hp.n_layer else 0.0,
        weights_bytes=weights.weights_bytes - weights.lookup_bytes,
    )
