"""Blocks of the KV cache: bytes per token, groups, and what a request takes."""

from dataclasses import replace

import pytest

from service.core.engines.vllm.cache_types import CACHE_TYPES, cache_type
from service.core.engines.vllm.kv_cache import CacheRules, cache_plan, rank_kv_heads
from service.core.problems import InvalidRequest
from tests.core.engines.vllm.models import checkpoint

BF16 = CacheRules(tensor_parallel=1, cache=CACHE_TYPES["bfloat16"])
FP8 = replace(BF16, cache=CACHE_TYPES["fp8"], align_state=True)


@pytest.mark.parametrize(
    ("name", "token_bytes"),
    [
        ("llama-3.1-8b", 131_072),
        ("llama-3.3-70b", 327_680),
        ("qwen2.5-7b", 57_344),
        ("qwen2.5-14b", 196_608),
        ("qwen2.5-72b", 327_680),
        ("qwen3-8b", 147_456),
        ("qwen3-14b", 163_840),
        ("qwen3-32b", 262_144),
        ("qwen3-30b-a3b", 98_304),
        ("qwen3-235b-a22b", 192_512),
        ("deepseek-r1-671b", 70_272),
        ("deepseek-v2-lite", 31_104),
    ],
)
def test_bytes_of_a_token(name: str, token_bytes: int) -> None:
    """A 16-bit cache of the whole model."""
    plan = cache_plan(checkpoint(name), BF16)
    assert plan.block_bytes() == plan.block_tokens * token_bytes


@pytest.mark.parametrize(("ranks", "share"), [(1, 8), (2, 4), (8, 1), (16, 1)])
def test_heads_are_divided_and_then_repeated(ranks: int, share: int) -> None:
    """Eight KV heads shrink no further than one a rank."""
    assert rank_kv_heads(8, ranks) == share
    plan = cache_plan(checkpoint("qwen3-32b"), replace(BF16, tensor_parallel=ranks))
    assert plan.block_bytes() == 16 * 64 * 2 * share * 128 * 2


def test_a_latent_is_whole_on_every_rank() -> None:
    """Tensor parallelism does not shrink the cache of latent attention; its own types do."""
    whole, eighth = (
        cache_plan(checkpoint("deepseek-r1-671b"), replace(BF16, tensor_parallel=ranks)).block_bytes()
        for ranks in (1, 8)
    )
    assert whole == eighth
    packed = cache_plan(checkpoint("deepseek-r1-671b"), replace(BF16, cache=CACHE_TYPES["fp8_ds_mla"]))
    assert packed.block_bytes() == 16 * 61 * 656


def test_windows_share_the_pool_in_groups_of_equal_size() -> None:
    """52 sliding and 10 full layers make six groups and one, of ten layers each."""
    plan = cache_plan(checkpoint("gemma-3-27b"), replace(BF16, in_flight_tokens=8192))
    assert sorted(group.spec.kind for group in plan.groups) == ["full", *["sliding"] * 6]
    assert {len(group.layers) for group in plan.groups} == {10}
    assert plan.block_bytes() == 10 * 16 * 2 * 16 * 128 * 2
    rules = replace(BF16, in_flight_tokens=8192)
    assert plan.request_blocks(131_072, rules) == 8192 + 6 * (-(-(1023 + 8192) // 16) + 1)


def test_alternating_windows_are_two_groups() -> None:
    """gpt-oss has every other layer windowed: two groups of half the layers."""
    plan = cache_plan(checkpoint("gpt-oss-120b", "MXFP4"), BF16)
    assert [len(group.layers) for group in plan.groups] == [18, 18]
    assert plan.block_bytes() == 16 * 36_864


def test_layers_without_the_hybrid_manager_are_kept_whole() -> None:
    """Where windows are not kept apart, every layer is full attention in one group."""
    plan = cache_plan(checkpoint("gemma-3-27b"), replace(BF16, hybrid=False))
    assert [group.spec.kind for group in plan.groups] == ["full"]


@pytest.mark.parametrize(
    ("name", "rules", "tokens"),
    [
        ("qwen3.6-27b", replace(FP8, tensor_parallel=2), 1568),
        ("qwen3.6-27b", replace(FP8, tensor_parallel=2, speculative_tokens=3), 1600),
        ("qwen3.6-35b-a3b", FP8, 2096),
        ("qwen3.6-27b", BF16, 784),
    ],
)
def test_an_attention_block_holds_a_state(name: str, rules: CacheRules, tokens: int) -> None:
    """The block sizes that vLLM prints for hybrids."""
    assert cache_plan(checkpoint(name), rules).block_tokens == tokens


def test_a_hybrid_s_request_takes_blocks_of_every_group() -> None:
    """164 of attention and five for each of three groups of states, in blocks of 17 layers."""
    rules = replace(FP8, tensor_parallel=2, speculative_tokens=3)
    plan = cache_plan(checkpoint("qwen3.6-27b"), rules)
    assert plan.request_blocks(262_144, rules) == 164 + 3 * (2 + 3)
    assert plan.block_bytes() == 17 * 1600 * 1024


def test_stages_hold_the_blocks_of_their_layers() -> None:
    """Half of the layers cost half of a block; of a hybrid, the widest group's layers there count."""
    plan = cache_plan(checkpoint("qwen3-32b"), BF16)
    assert plan.block_bytes(range(16)) * 4 == plan.block_bytes()
    hybrid = cache_plan(checkpoint("qwen3.6-27b"), FP8)
    assert hybrid.block_bytes(range(32)) * 2 == hybrid.block_bytes()


def test_four_bits_with_scales() -> None:
    """nvfp4 keeps a byte of scale for 16 elements; scales per head and token are four bytes."""
    assert CACHE_TYPES["nvfp4"].head_bytes(256) == 128 + 16
    assert CACHE_TYPES["int8_per_token_head"].head_bytes(128) == 132


def test_an_unknown_type_is_refused() -> None:
    """Names are vLLM's own."""
    with pytest.raises(InvalidRequest, match="q8_0"):
        cache_type("q8_0")
