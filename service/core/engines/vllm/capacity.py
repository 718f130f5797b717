"""From bytes to blocks: what every rank has left for the KV cache, and what that holds."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from service.core.engines.vllm.kv_cache import CachePlan, CacheRules
from service.core.engines.vllm.versions import VersionRules

# one block is held back for good. Source: v1/core/kv_cache_planning.py:1533-1543 (vLLM 0.33.0)
_NULL_BLOCKS = 1


def requested_bytes(total_bytes: int, utilization: float) -> int:
    """Share of a card that vLLM takes. Source: request_memory, v1/worker/utils.py:724 (0.33.0)."""
    return ceil(total_bytes * utilization)


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """The KV cache of one replica: blocks of every rank, which are those of the rank that has the fewest.

    tokens, concurrency: as vLLM prints them for requests of max_model_len.
    """

    blocks: int
    rank_blocks: tuple[int, ...]
    tokens: int
    concurrency: float
    request_blocks: int

    @property
    def holds_request(self) -> bool:
        """Whether one request of max_model_len fits, which vLLM checks at start."""
        return 0 < self.request_blocks <= self.blocks - _NULL_BLOCKS or self.request_blocks == 0


def blocks_of(available_bytes: int, block_bytes: int) -> int:
    """Whole blocks in what is available."""
    return max(0, available_bytes) // block_bytes if block_bytes else 0


def capacity(
    plan: CachePlan, rank_blocks: Sequence[int], max_model_len: int, cache: CacheRules, rules: VersionRules
) -> Capacity:
    """Capacity of the blocks of all ranks.

    Source: get_max_concurrency_for_kv_cache_config and get_kv_cache_capacity, v1/core/kv_cache_utils.py:1061-1124
    (0.33.0); until 0.20.0 tokens were printed as blocks // groups * the smallest block.
    """
    blocks = min(rank_blocks, default=0)
    per_request = plan.request_blocks(max_model_len, cache)
    concurrency = blocks / per_request if per_request else 0.0
    tokens = int(concurrency * max_model_len)
    if rules.tokens_by_groups and plan.groups:
        tokens = blocks // len(plan.groups) * min(group.spec.block_tokens for group in plan.groups)
    return Capacity(
        blocks=blocks,
        rank_blocks=tuple(rank_blocks),
        tokens=tokens,
        concurrency=concurrency,
        request_blocks=per_request,
    )


def longest_request_tokens(plan: CachePlan, blocks: int, most_tokens: int, streams: int, cache: CacheRules) -> int:
    """Longest request of which `streams` fit at once, up to `most_tokens`; 0 where none does.

    Source: estimate_max_model_len, v1/core/kv_cache_planning.py:1288-1334 (0.33.0), for one stream.
    """
    room = blocks - _NULL_BLOCKS

    def fits(tokens: int) -> bool:
        return streams * plan.request_blocks(tokens, cache) <= room

    if not fits(1):
        return 0
    low, high = 1, most_tokens
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low
