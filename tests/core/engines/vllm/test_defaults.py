"""Batch sizes follow the first card's size, release by release."""

import pytest

from service.core.engines.vllm.defaults import batch_sizes, default_batch_sizes
from service.core.engines.vllm.versions import version_rules
from tests.core.engines.vllm.models import card


@pytest.mark.parametrize(
    ("slug", "version", "tokens", "seqs"),
    [
        ("rtx-3090", None, 2048, 256),
        ("rtx-5090", None, 2048, 256),
        ("l40s", None, 2048, 256),
        ("a100-sxm4-80gb", None, 2048, 256),
        ("dgx-spark-gb10", None, 2048, 256),
        ("h100-sxm5-80gb", None, 8192, 1024),
        ("rtx-pro-6000-blackwell-ws", None, 8192, 1024),
        ("h200-sxm-141gb", None, 8192, 1024),
        ("b200", None, 16384, 1024),
        ("mi300x", None, 16384, 1024),
        ("a100-sxm4-80gb", "0.8.5", 8192, 1024),
        ("a100-sxm4-80gb", "0.11.0", 2048, 256),
        ("b200", "0.19.1", 8192, 1024),
        ("dgx-spark-gb10", "0.19.1", 8192, 1024),
    ],
)
def test_the_defaults_of_a_card(slug: str, version: str | None, tokens: int, seqs: int) -> None:
    """The table of releases and devices."""
    sizes = default_batch_sizes(card(slug), version_rules(version, None))
    assert (sizes.max_num_batched_tokens, sizes.max_num_seqs) == (tokens, seqs)


def test_a_step_has_no_more_tokens_than_all_sequences() -> None:
    """The default is capped by max_num_seqs requests of max_model_len; a stated size is not."""
    rules, gpu = version_rules(None, None), card("h100-sxm5-80gb")
    assert batch_sizes(gpu, rules, batched_tokens=None, seqs=2, max_model_len=1000).max_num_batched_tokens == 2000
    assert batch_sizes(gpu, rules, batched_tokens=4096, seqs=2, max_model_len=1000).max_num_batched_tokens == 4096


def test_v0_took_whole_prompts() -> None:
    """Up to 32,768 tokens a step took a whole prompt, beyond it chunks of 512."""
    rules, gpu = version_rules("0.6.5", None), card("rtx-3090")
    sizes = [batch_sizes(gpu, rules, batched_tokens=None, seqs=None, max_model_len=each) for each in (20_000, 131_072)]
    assert [each.max_num_batched_tokens for each in sizes] == [20_000, 512]


@pytest.mark.parametrize(("version", "share"), [(None, 0.92), ("0.21.0", 0.92), ("0.19.1", 0.9), ("0.8.5.post1", 0.9)])
def test_the_share_of_memory_by_release(version: str | None, share: float) -> None:
    """gpu_memory_utilization rose from 0.90 to 0.92."""
    assert version_rules(version, None).gpu_memory_utilization == share


def test_a_date_stands_for_the_release_of_that_time() -> None:
    """The newest release up to the month."""
    assert version_rules(None, "2025-10").version == (0, 11, 0)
    assert version_rules(None, "2026-11-30").version == (0, 33, 0)
