"""How fast a deployment decodes and processes prompts: reads, fixed times and all-reduces, stage by stage."""

from collections.abc import Sequence
from dataclasses import dataclass

from service.core.engines.vllm.deployment import Deployment, Rank
from service.core.engines.vllm.formats import FORMATS
from service.core.engines.vllm.kv_cache import caches_of, token_bytes
from service.core.engines.vllm.model import LayerCache
from service.core.engines.vllm.prompt_speed import prefill_s, prompt_flops_per_s
from service.core.engines.vllm.reductions import reducing_s
from service.core.engines.vllm.speed_constants import (
    AGGREGATE_RANGE_FRACTION,
    ASSUMED_RANGE_FACTOR,
    BANDWIDTH_FRACTION_BY_BITS,
    DECODE_RANGE_FRACTION,
    EAGER_FACTOR,
    EXPERT_BATCH_FRACTION,
    EXPERT_LAYER_S,
    FITTED_CAPABILITIES,
    LAYER_S,
    MODELLED_RANGE_FACTOR,
    PREFILL_RANGE_FRACTION,
    SEQUENCE_S,
    STAGE_S,
    STEP_S,
)
from service.core.links.rates import PINNED_COPY_FRACTION
from service.core.links.topology import link_bytes_per_s
from service.core.power_limits import limited_speed
from service.core.speed import Assumptions, Basis, Limit, Step
from service.core.types import Gpu, Rig, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTime:
    """One stage in one decode step: what its slowest rank reads, and the parts of its time."""

    name: str
    read_bytes: int
    reading_s: float
    computing_s: float
    fixed_s: float
    reducing_s: float

    @property
    def s(self) -> float:
        """Time of the stage."""
        return max(self.reading_s, self.computing_s) + self.fixed_s + self.reducing_s


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmSpeed:
    """Speed of a deployment. step_s: of one decode step of all its streams; one_step_s: of a single stream's.

    rank_s, rank_reads: time and bytes of each rank of the first replica. prefill_s: of one prompt.
    """

    step_s: float
    one_step_s: float
    stages: tuple[StageTime, ...]
    rank_s: tuple[float, ...]
    rank_reads: tuple[int, ...]
    prefill_s: float | None
    limited_by: Limit
    basis: Basis
    decode_range_fraction: float
    prefill_range_fraction: float
    replica_streams: int

    @property
    def steps(self) -> tuple[Step, ...]:
        """Parts of a decode step in words."""
        parts = []
        for stage in self.stages:
            what = f"{stage.name} reads {stage.read_bytes / 1e9:.2f} GB"
            if stage.computing_s > stage.reading_s:
                what = f"{stage.name} computes"
            parts.append(Step(what=what, s=max(stage.reading_s, stage.computing_s)))
            parts.append(Step(what=f"{stage.name} fixed time", s=stage.fixed_s))
            parts.append(Step(what=f"{stage.name} all-reduces", s=stage.reducing_s))
        return tuple(step for step in parts if step.s > 0)


def speed_of(deployment: Deployment, rig: Rig, workload: Workload, assumptions: Assumptions) -> VllmSpeed | None:
    """Speed of a deployment under a workload; None where a card's bandwidth is not known."""
    layout = deployment.layout
    ranks = deployment.ranks[: layout.tensor_parallel * layout.pipeline_parallel]
    gpus = [deployment.gpus[rank.card] for rank in ranks]
    if any(gpu.bandwidth_bytes_per_s is None for gpu in gpus):
        return None
    streams = -(-workload.parallel // layout.data_parallel)
    depth = workload.cached_tokens + workload.prompt_tokens + workload.output_tokens // 2
    stages = _stages(deployment, ranks, streams, depth, rig, assumptions)
    alone = stages if streams == 1 else _stages(deployment, ranks, 1, depth, rig, assumptions)
    step_s = _step_s(stages, streams, layout.pipeline_parallel)
    basis = _basis(gpus)
    widened = {"fitted": 1.0, "modelled": MODELLED_RANGE_FACTOR}.get(basis, ASSUMED_RANGE_FACTOR)
    return VllmSpeed(
        step_s=step_s,
        one_step_s=_step_s(alone, 1, layout.pipeline_parallel),
        stages=tuple(stages),
        rank_s=tuple(_rank_time(deployment, rank, streams, depth, rig, assumptions).s for rank in ranks),
        rank_reads=tuple(_read_bytes(deployment, rank, 1, depth, ignore_kv=False) for rank in ranks),
        prefill_s=prefill_s(deployment, ranks, workload, rig),
        limited_by=_limit(stages),
        basis=basis,
        decode_range_fraction=widened * (DECODE_RANGE_FRACTION if streams == 1 else AGGREGATE_RANGE_FRACTION),
        prefill_range_fraction=widened * PREFILL_RANGE_FRACTION,
        replica_streams=streams,
    )


def _basis(gpus: Sequence[Gpu]) -> Basis:
    """What a speed rests on: the runs the constants come from, the same physics, or a card nothing is known of."""
    capabilities = {gpu.compute_capability for gpu in gpus}
    if capabilities <= FITTED_CAPABILITIES:
        return "fitted"
    return "assumed" if None in capabilities else "modelled"


def _step_s(stages: Sequence[StageTime], streams: int, pipeline: int) -> float:
    """Time between two tokens of one stream: it passes every stage; other streams fill the pipeline meanwhile."""
    return sum(stage.s for stage in stages) + (pipeline - 1) * STAGE_S + STEP_S + (streams - 1) * SEQUENCE_S


def _stages(
    deployment: Deployment, ranks: Sequence[Rank], streams: int, depth: int, rig: Rig, assumptions: Assumptions
) -> list[StageTime]:
    """The slowest rank of each stage; with a pipeline, each stage works on its share of the streams at a time."""
    tp, pp = deployment.layout.tensor_parallel, deployment.layout.pipeline_parallel
    batch = -(-streams // pp)
    times = []
    for stage in range(pp):
        group = ranks[stage * tp : (stage + 1) * tp]
        each = [_rank_time(deployment, rank, batch, depth, rig, assumptions) for rank in group]
        times.append(max(each, key=lambda time: time.s))
    return times


def _rank_time(
    deployment: Deployment, rank: Rank, streams: int, depth: int, rig: Rig, assumptions: Assumptions
) -> StageTime:
    """One rank in one decode step of `streams` sequences that are `depth` tokens long."""
    model, gpu = deployment.model, deployment.gpus[rank.card]
    scheme = FORMATS[model.scheme]
    fraction = assumptions.bandwidth_fraction or BANDWIDTH_FRACTION_BY_BITS[scheme.weight_bits]
    limited = limited_speed(gpu.power_limit_w, gpu.tdp_w)
    read = _read_bytes(deployment, rank, streams, depth, ignore_kv=assumptions.ignore_kv_reads)
    rate = (gpu.bandwidth_bytes_per_s or 1.0) * fraction * limited.decode_fraction
    scattered = _further_expert_bytes(deployment, rank, streams) * (1 / EXPERT_BATCH_FRACTION - 1)
    blocks = len(rank.blocks)
    fixed = assumptions.fixed_s_per_device
    if fixed is None:
        fixed = blocks * (LAYER_S + (EXPERT_LAYER_S if model.experts else 0.0))
        fixed *= EAGER_FACTOR if deployment.run.eager else 1.0
    offloaded_s = rank.offloaded_bytes / (link_bytes_per_s(gpu) * PINNED_COPY_FRACTION)
    compute = prompt_flops_per_s(gpu, scheme)
    flops = 2.0 * model.active_parameters * blocks / len(model.layers) / deployment.layout.tensor_parallel * streams
    return StageTime(
        name=gpu.slug,
        read_bytes=read,
        reading_s=(read + scattered) / rate + offloaded_s,
        computing_s=flops / (compute * limited.prefill_fraction) if compute else 0.0,
        fixed_s=fixed,
        reducing_s=reducing_s(deployment, rank, streams, rig),
    )


def _read_bytes(deployment: Deployment, rank: Rank, streams: int, depth: int, *, ignore_kv: bool) -> int:
    """Weights that a step of `streams` tokens reads, more experts with more tokens, and the cache of every sequence."""
    read = rank.weights.active_bytes + _further_expert_bytes(deployment, rank, streams)
    if ignore_kv:
        return read
    return read + streams * cache_read_bytes(deployment, rank.blocks, depth)


def _further_expert_bytes(deployment: Deployment, rank: Rank, streams: int) -> int:
    """Bytes of experts that a batch reads beyond those of one token.

    Of independently routed tokens, the share of experts that at least one of them takes is 1 - (1 - used)^tokens.
    """
    model = deployment.model
    if not model.experts or streams == 1:
        return 0
    used = model.experts_used / model.experts
    return round(rank.weights.expert_bytes * (1 - (1 - used) ** streams - used))


def cache_read_bytes(deployment: Deployment, blocks: range, depth: int) -> int:
    """Bytes of cache that one token of one sequence reads on one rank of a stage."""
    return sum(
        count * _layer_read_bytes(deployment, cache, depth) for cache, count in caches_of(deployment.model, blocks)
    )


def _layer_read_bytes(deployment: Deployment, cache: LayerCache, depth: int) -> int:
    if cache.state is not None:
        tp = deployment.layout.tensor_parallel
        return cache.state.recurrent_elements // tp * (cache.state.recurrent_element_bytes or 2) * 2
    seen = min(depth, cache.window_tokens) if cache.window_tokens else depth
    return seen * token_bytes(cache, deployment.cache_rules)


def _limit(stages: Sequence[StageTime]) -> Limit:
    reading = sum(stage.reading_s for stage in stages)
    computing = sum(stage.computing_s for stage in stages)
    reducing = sum(stage.reducing_s for stage in stages)
    if reducing > max(reading, computing):
        return "interconnect"
    return "compute" if computing > reading else "memory_bandwidth"
