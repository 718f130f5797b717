"""One way to run a model on a rig: which ranks, what each holds, and what the KV cache then is."""

from dataclasses import dataclass
from functools import cached_property

from service.core.engines.vllm.cache_types import cache_type
from service.core.engines.vllm.capacity import Capacity, blocks_of, capacity, longest_request_tokens, requested_bytes
from service.core.engines.vllm.defaults import BatchSizes
from service.core.engines.vllm.kv_cache import CachePlan, CacheRules, cache_plan
from service.core.engines.vllm.layer_sums import LayerSums, layer_sums
from service.core.engines.vllm.model import VllmModel
from service.core.engines.vllm.scratch import Scratch, scratch
from service.core.engines.vllm.stages import stage_ranges
from service.core.engines.vllm.versions import VersionRules
from service.core.engines.vllm.weights import Shard, Sharding
from service.core.types import Gpu
from service.core.units import GIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Sizes of a deployment. cards: indices into the rig, replica by replica, stage by stage, rank by rank."""

    tensor_parallel: int
    pipeline_parallel: int
    data_parallel: int
    partition: tuple[int, ...]
    expert_parallel: bool
    cards: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Everything else a deployment is made with, resolved."""

    rules: VersionRules
    utilization: float
    batch: BatchSizes
    dtype: str
    kv_cache_dtype: str
    eager: bool = False
    offload_bytes: int = 0
    speculative_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """One worker. offloaded_bytes: weights kept in the host's memory. available_bytes: for the KV cache."""

    card: int
    blocks: range
    weights: Shard
    offloaded_bytes: int
    scratch: Scratch
    requested_bytes: int
    available_bytes: int
    block_bytes: int

    @property
    def weights_bytes(self) -> int:
        """Weights on the card."""
        return self.weights.allocated_bytes - self.offloaded_bytes


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """A model on cards, in one replica or several equal ones."""

    model: VllmModel
    gpus: tuple[Gpu, ...]
    layout: Layout
    run: Run

    @cached_property
    def sharding(self) -> Sharding:
        """How weights are divided in one replica."""
        layout = self.layout
        across = layout.tensor_parallel * layout.data_parallel
        capability = min((gpu.compute_capability for gpu in self.gpus if gpu.compute_capability), default=None)
        return Sharding(
            tensor_parallel=layout.tensor_parallel,
            expert_parallel=across if layout.expert_parallel and self.model.experts else 0,
            expert_tensor_parallel=across,
            capability=capability,
        )

    @cached_property
    def cache_rules(self) -> CacheRules:
        """What the cache depends on."""
        rules, batch, layout = self.run.rules, self.run.batch, self.layout
        batches = layout.pipeline_parallel + 1 if rules.window_keeps_all_batches else 1
        return CacheRules(
            tensor_parallel=layout.tensor_parallel,
            cache=cache_type(self.run.kv_cache_dtype),
            block_tokens=64 if self.model.is_latent else 16,
            speculative_tokens=self.run.speculative_tokens,
            in_flight_tokens=batches * batch.max_num_batched_tokens,
            align_state=self.model.has_state,
            hybrid=not self.model.has_chunked_attention,
        )

    @cached_property
    def cache(self) -> CachePlan:
        """Groups of the KV cache."""
        return cache_plan(self.model, self.cache_rules)

    @cached_property
    def sums(self) -> LayerSums:
        """Bytes of any range of blocks."""
        return layer_sums(self.model, self.sharding)

    @cached_property
    def whole_bytes(self) -> int:
        """Bytes of the whole checkpoint, undivided."""
        sums = layer_sums(self.model, Sharding(capability=None))
        return sums.stage(range(len(self.model.layers))).stored_bytes - self.model.rotary_bytes

    @cached_property
    def scratch(self) -> Scratch:
        """Estimates that are the same on every rank."""
        layout, batch = self.layout, self.run.batch
        return scratch(
            self.model,
            layout.tensor_parallel,
            batch.max_num_batched_tokens,
            batch.max_num_seqs,
            eager=self.run.eager,
            alone=layout.tensor_parallel * layout.pipeline_parallel == 1,
            rules=self.run.rules,
        )

    @cached_property
    def ranks(self) -> tuple[Rank, ...]:
        """Every worker of every replica, in the order of the layout's cards."""
        ranges = stage_ranges(self.layout.partition)
        stages = [blocks for blocks in ranges for _ in range(self.layout.tensor_parallel)]
        return tuple(
            self.rank(card, blocks)
            for card, blocks in zip(self.layout.cards, stages * self.layout.data_parallel, strict=True)
        )

    def rank(self, card: int, blocks: range) -> Rank:
        """What one worker holds of a range of blocks, and what is left for its cache.

        Source: determine_available_memory, v1/worker/gpu_worker.py:656-773, utils/mem_utils.py:312-321 (0.33.0).
        """
        run, estimates = self.run, self.scratch
        weights = self.sums.stage(blocks)
        offloaded = min(run.offload_bytes, weights.allocated_bytes)
        requested = requested_bytes(self.gpus[card].total_bytes, run.utilization)
        spent = weights.allocated_bytes - offloaded + estimates.activation_bytes + estimates.outside_bytes
        if run.rules.subtracts_graphs:
            spent += estimates.graph_bytes
        return Rank(
            card=card,
            blocks=blocks,
            weights=weights,
            offloaded_bytes=offloaded,
            scratch=estimates,
            requested_bytes=requested,
            available_bytes=requested - spent,
            block_bytes=self.cache.block_bytes(blocks),
        )

    def capacity(self, max_model_len: int) -> Capacity:
        """The KV cache of one replica for requests of `max_model_len`; the least of all replicas."""
        plan = self.cache
        counts = [blocks_of(rank.available_bytes, rank.block_bytes) for rank in self.ranks]
        return capacity(plan, counts, max_model_len, self.cache_rules, self.run.rules)

    def longest_request_tokens(self, most_tokens: int, streams: int = 1) -> int:
        """Longest request of which `streams` fit at once in one replica."""
        if not all(rank.available_bytes > 0 for rank in self.ranks):
            return 0
        blocks = self.capacity(1).blocks
        return longest_request_tokens(self.cache, blocks, most_tokens, streams, self.cache_rules)


def offload_bytes(gib: float) -> int:
    """Bytes of --cpu-offload-gb."""
    return round(gib * GIB)
