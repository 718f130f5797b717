"""Sums over blocks, so that a stage of any length costs the same to weigh."""

from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

from service.core.engines.vllm.formats import FORMATS
from service.core.engines.vllm.model import VllmModel
from service.core.engines.vllm.weights import Shard, Sharding, first_shard, last_shard, layer_shard, shared_shard


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerSums:
    """Bytes of the first n blocks for every n, and of what only the first, the last and every stage holds."""

    layers: tuple[Shard, ...]
    every: Shard
    first: Shard
    last: Shard
    only: Shard

    def stage(self, blocks: range) -> Shard:
        """Bytes of one stage on each of its ranks."""
        total = self.layers[blocks.stop] - self.layers[blocks.start] + self.every
        is_first, is_last = blocks.start == 0, blocks.stop == len(self.layers) - 1
        if is_first:
            total += self.first
        if is_last:
            total += self.only if is_first else self.last
        return total


@lru_cache(maxsize=1024)
def layer_sums(model: VllmModel, sharding: Sharding) -> LayerSums:
    """Sums of one model divided one way."""
    scheme, whole = FORMATS[model.scheme], FORMATS["BF16"]
    share = model.experts_used / model.experts if model.experts else 1.0
    ends = (0, len(model.layers) - 1) if scheme.ends_are_whole else ()
    layers = accumulate(
        (layer_shard(layer, whole if il in ends else scheme, sharding, share) for il, layer in enumerate(model.layers)),
        initial=Shard(),
    )
    return LayerSums(
        layers=tuple(layers),
        every=shared_shard(model),
        first=first_shard(model, sharding),
        last=last_shard(model, sharding, holds_embedding=False),
        only=last_shard(model, sharding, holds_embedding=True),
    )
