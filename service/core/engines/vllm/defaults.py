"""Batch sizes that vLLM chooses by the size of the first card.

Source: get_batch_defaults, engine/arg_utils.py:2940-3039, and max_num_batched_tokens' cap, 3221-3224 (0.33.0).
"""

from dataclasses import dataclass

from service.core.engines.vllm.versions import VersionRules
from service.core.types import Gpu
from service.core.units import GIB

_LARGE_BYTES, _MEDIUM_BYTES = 160 * GIB, 70 * GIB
# V0 cut prompts only of models with a longer context than this, into chunks of this many tokens; else a step took a
# whole prompt. Source: EngineArgs.create_engine_config, engine/arg_utils.py (0.6 and 0.7)
_V0_WHOLE_PROMPT_TOKENS, V0_CHUNK_TOKENS = 32768, 512
# cards that count as small although they are large, by a word of their name
_SMALL_WORD = "a100"
# unified memory of this compute capability counts as small (GB10)
_SMALL_CAPABILITY = (12, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSizes:
    """Tokens and sequences of one step."""

    max_num_batched_tokens: int
    max_num_seqs: int


def default_batch_sizes(gpu: Gpu, rules: VersionRules) -> BatchSizes:
    """What `vllm serve` takes on a rig whose first card is `gpu`."""
    if gpu.total_bytes >= _LARGE_BYTES and rules.has_large_tier:
        return BatchSizes(max_num_batched_tokens=16384, max_num_seqs=1024)
    is_a100 = rules.excludes_a100 and _SMALL_WORD in gpu.name.lower()
    is_shared = rules.has_large_tier and gpu.compute_capability == _SMALL_CAPABILITY
    if gpu.total_bytes >= _MEDIUM_BYTES and not is_a100 and not is_shared:
        return BatchSizes(max_num_batched_tokens=8192, max_num_seqs=1024)
    return BatchSizes(max_num_batched_tokens=2048, max_num_seqs=256)


def batch_sizes(
    gpu: Gpu, rules: VersionRules, *, batched_tokens: int | None, seqs: int | None, max_model_len: int
) -> BatchSizes:
    """Batch sizes in force: what is stated, else the defaults, tokens capped by what all sequences can have."""
    defaults = default_batch_sizes(gpu, rules)
    if rules.counts_context:
        whole = max_model_len <= _V0_WHOLE_PROMPT_TOKENS
        tokens = max(max_model_len, 2048) if whole else V0_CHUNK_TOKENS
        return BatchSizes(max_num_batched_tokens=batched_tokens or tokens, max_num_seqs=seqs or 256)
    chosen_seqs = seqs or defaults.max_num_seqs
    if batched_tokens is not None:
        return BatchSizes(max_num_batched_tokens=batched_tokens, max_num_seqs=chosen_seqs)
    tokens = min(max(defaults.max_num_batched_tokens, chosen_seqs), chosen_seqs * max_model_len)
    return BatchSizes(max_num_batched_tokens=tokens, max_num_seqs=chosen_seqs)
