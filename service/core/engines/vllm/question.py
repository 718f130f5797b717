"""One question about vLLM, and the choice that answers it."""

from dataclasses import dataclass, replace
from functools import cached_property

from service.core.engines.vllm.cache_types import CACHE_TYPES, cache_type
from service.core.engines.vllm.capacity import blocks_of
from service.core.engines.vllm.defaults import BatchSizes, batch_sizes
from service.core.engines.vllm.deployment import Deployment, Layout, Run, offload_bytes
from service.core.engines.vllm.formats import FORMATS
from service.core.engines.vllm.layouts import Shape
from service.core.engines.vllm.model import VllmModel
from service.core.engines.vllm.partition import best_partition
from service.core.engines.vllm.refusals import model_dtype, refuse_cache_type, refuse_cards
from service.core.engines.vllm.settings import VllmSettings
from service.core.engines.vllm.stages import even_partition
from service.core.engines.vllm.versions import VersionRules, version_rules
from service.core.problems import Contradiction, InvalidRequest, Unsupported
from service.core.types import Rig, Workload

_AUTO = ("auto", None)


@dataclass(frozen=True, kw_only=True)
class VllmQuestion:
    """A model on a rig for a workload, with what the user fixed."""

    model: VllmModel
    rig: Rig
    workload: Workload
    settings: VllmSettings

    @cached_property
    def rules(self) -> VersionRules:
        """Rules of the release asked for."""
        return version_rules(self.settings.version, self.settings.date)

    @cached_property
    def dtype(self) -> str:
        """Type of activations."""
        return model_dtype(self.rig.gpus)

    @cached_property
    def kv_cache_dtype(self) -> str:
        """Type of the KV cache."""
        stated = self.settings.kv_cache_dtype
        return self.dtype if stated in _AUTO or stated is None else stated

    @cached_property
    def streams(self) -> int:
        """Requests at once."""
        return self.workload.parallel

    @cached_property
    def stated_request_tokens(self) -> int | None:
        """Longest request asked for: the share that each stream has of the context; None where it is left open."""
        context = self.workload.context_tokens
        return None if context is None else -(-context // self.streams)

    @cached_property
    def most_request_tokens(self) -> int:
        """Longest request that the model allows, or that is asked for."""
        return self.settings.max_model_len or self.model.trained_context_tokens or self.stated_request_tokens or 1

    def refuse(self) -> None:
        """Raise Unsupported, Contradiction or InvalidRequest for what vLLM refuses before it looks at any memory."""
        refuse_cards(self.rig.gpus, FORMATS[self.model.scheme])
        cache_type(self.kv_cache_dtype)
        refuse_cache_type(self.kv_cache_dtype, self.rig.gpus, is_latent=self.model.is_latent)
        self._refuse_lengths()
        stated = self.settings
        if stated.max_num_batched_tokens is not None and stated.max_num_batched_tokens < (stated.max_num_seqs or 1):
            raise InvalidRequest(
                f"max_num_batched_tokens ({stated.max_num_batched_tokens}) must be greater than or equal to "
                f"max_num_seqs ({stated.max_num_seqs}).",
                fields=("engine.max_num_batched_tokens", "engine.max_num_seqs"),
            )

    def _refuse_lengths(self) -> None:
        length = self.settings.max_model_len or self.stated_request_tokens
        trained, asked = self.model.trained_context_tokens, self.stated_request_tokens
        if length and trained and length > trained:
            raise Unsupported(
                f"User-specified max_model_len ({length}) is greater than the derived max_model_len "
                f"(max_position_embeddings={trained}): ask for {trained} tokens per stream at most, or set rope "
                "scaling in the checkpoint and VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 yourself.",
                fields=("workload.context_tokens", "engine.max_model_len"),
            )
        if self.settings.max_model_len and asked and asked > self.settings.max_model_len:
            raise Contradiction(
                f"Each of {self.streams} streams is to have {asked} tokens, and max_model_len is "
                f"{self.settings.max_model_len}.",
                fields=("workload.context_tokens", "workload.parallel", "engine.max_model_len"),
            )

    def batch(self, max_model_len: int) -> BatchSizes:
        """Batch sizes of `vllm serve`, stated or by the first card's size."""
        sizes = batch_sizes(
            self.rig.gpus[0],
            self.rules,
            batched_tokens=self.settings.max_num_batched_tokens,
            seqs=self.settings.max_num_seqs,
            max_model_len=max_model_len,
        )
        if sizes.max_num_seqs > sizes.max_num_batched_tokens and self.settings.max_num_seqs is None:
            return replace(sizes, max_num_seqs=sizes.max_num_batched_tokens)
        return sizes

    def run(self, batch: BatchSizes) -> Run:
        """What every deployment of this question is made with."""
        return Run(
            rules=self.rules,
            utilization=self.settings.gpu_memory_utilization or self.rules.gpu_memory_utilization,
            batch=batch,
            dtype=self.dtype,
            kv_cache_dtype=self.kv_cache_dtype,
            eager=self.settings.enforce_eager,
            offload_bytes=offload_bytes(self.settings.cpu_offload_gib),
        )

    def deployment(self, shape: Shape, batch: BatchSizes, request_tokens: int | None) -> Deployment:
        """A shape with its layers shared out: as stated, as vLLM does, or by what the cards hold."""
        layers, stages = len(self.model.layers), shape.pipeline_parallel
        layout = Layout(
            tensor_parallel=shape.tensor_parallel,
            pipeline_parallel=stages,
            data_parallel=shape.data_parallel,
            partition=self.settings.pp_layer_partition or even_partition(layers, stages),
            expert_parallel=self.settings.enable_expert_parallel,
            cards=shape.cards,
        )
        deployment = Deployment(model=self.model, gpus=self.rig.gpus, layout=layout, run=self.run(batch))
        if self.settings.pp_layer_partition is not None or stages == 1:
            return deployment
        partition = self._partition(deployment, request_tokens)
        return replace(deployment, layout=replace(layout, partition=partition))

    def _partition(self, deployment: Deployment, request_tokens: int | None) -> tuple[int, ...]:
        """The partition that holds the streams asked for, else the one with the most blocks.

        Equal cards with the context left open keep vLLM's own.
        """
        layout = deployment.layout
        tp, stages = layout.tensor_parallel, layout.pipeline_parallel
        # ranks of a stage hold the same, so the smallest of its cards has the fewest blocks
        smallest = [
            min(layout.cards[stage * tp : (stage + 1) * tp], key=lambda card: self.rig.gpus[card].total_bytes)
            for stage in range(stages)
        ]

        def blocks(stage: int, held: range) -> int:
            rank = deployment.rank(smallest[stage], held)
            # below nothing, the bytes that are missing: the least bad partition is found too
            return min(rank.available_bytes, blocks_of(rank.available_bytes, rank.block_bytes))

        enough = 0
        if request_tokens is not None:
            per_request = deployment.cache.request_blocks(request_tokens, deployment.cache_rules)
            enough = per_request * -(-self.streams // layout.data_parallel) + 1
        return best_partition(len(self.model.layers), stages, blocks, enough_blocks=enough)


def known_cache_types() -> list[str]:
    """Names of cache types that a request may state."""
    return ["auto", *CACHE_TYPES]
