"""What vLLM measures rather than computes: activations, CUDA graphs, and what lies outside PyTorch. All estimates.

Fitted to public start-up logs (tests/observed/vllm.jsonl); every figure made of these is said to be an estimate.
"""

from dataclasses import dataclass

from service.core.engines.vllm.defaults import V0_CHUNK_TOKENS
from service.core.engines.vllm.model import Vision, VllmModel
from service.core.engines.vllm.versions import VersionRules
from service.core.units import GIB, MIB

_SIXTEEN_BIT_BYTES = 2
# rows of the hidden state alive at once beside the feed-forward's three: 1,952 blocks of a 8B model at 20,000 tokens,
# and its growth to 29,000, are met by three (logs of 0.6)
_HIDDEN_ROWS = 3
# an all-reduce gives new tensors: 5.66 GiB of a 72B model on two cards at 32,768 tokens (a log of 0.7.2)
_REDUCED_ROWS = 2
_FEED_FORWARD_ROWS = 3
# bytes per logit at the peak of the sampler's dummy pass: half-precision logits, their float copy and one more; V0
# sorted every row as well, 1.26 GiB of 256 rows of 128,256 and 1.42 GiB of 256 of 152,064
_LOGIT_BYTES, _LOGIT_BYTES_V0 = 10, 40
# tokens that the fused experts work on at once (VLLM_FUSED_MOE_CHUNK_SIZE)
_EXPERT_CHUNK_TOKENS = 16 * 1024
_VISION_HIDDEN_ROWS, _VISION_FEED_FORWARD_ROWS = 5, 2
_GRAPHS_BASE_BYTES, _GRAPH_BYTES = GIB // 4, GIB // 100
_GRAPHS_OLD_BYTES = round(1.2 * GIB)
# 0.03 to 0.35 GiB on single cards, where V0 counted the context as well; more with NCCL's buffers
_OUTSIDE_ALONE_BYTES, _OUTSIDE_TOGETHER_BYTES, _OUTSIDE_V0_BYTES = 100 * MIB, 300 * MIB, 250 * MIB
# context, NCCL buffers and graphs above the estimate: what to leave free outside vLLM's share
RESERVE_ALONE_BYTES, RESERVE_TOGETHER_BYTES = GIB // 2, GIB + GIB // 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Scratch:
    """Estimates of one rank.

    activation_bytes: the peak of a full step. graph_bytes: CUDA graphs. outside_bytes: what PyTorch does not count.
    """

    activation_bytes: int
    graph_bytes: int
    outside_bytes: int


def activation_bytes(model: VllmModel, tp: int, tokens: int, seqs: int, rules: VersionRules) -> int:
    """Peak of the profiling pass: a feed-forward of `tokens`, or the sampler's logits, or the largest image."""
    return max(
        _forward_bytes(model, tp, tokens),
        _logit_bytes(model, tokens, seqs, rules),
        _vision_bytes(model.vision, tp) if model.vision is not None else 0,
    )


def _logit_bytes(model: VllmModel, tokens: int, seqs: int, rules: VersionRules) -> int:
    """The sampler's; V0 with chunked prompts profiled sequences that end in no step and so have none."""
    if rules.counts_context:
        return 0 if tokens <= V0_CHUNK_TOKENS else min(seqs, tokens) * model.vocabulary * _LOGIT_BYTES_V0
    return min(seqs, tokens) * model.vocabulary * _LOGIT_BYTES


def _forward_bytes(model: VllmModel, tp: int, tokens: int) -> int:
    dense = _FEED_FORWARD_ROWS * model.ff_rows // tp
    hidden = (_HIDDEN_ROWS + (_REDUCED_ROWS if tp > 1 else 0)) * model.hidden_size
    bytes_per_token = _SIXTEEN_BIT_BYTES * (dense + hidden)
    routed = 0
    if model.experts:
        inner = model.expert_rows // tp
        row = max(2 * inner, model.hidden_size) + inner
        routed = min(tokens, _EXPERT_CHUNK_TOKENS) * model.experts_used * row * _SIXTEEN_BIT_BYTES
        bytes_per_token = _SIXTEEN_BIT_BYTES * hidden
    return tokens * bytes_per_token + routed


def _vision_bytes(vision: Vision, tp: int) -> int:
    row = _VISION_HIDDEN_ROWS * vision.hidden_size + _VISION_FEED_FORWARD_ROWS * vision.ff_rows // tp
    return vision.patches * row * _SIXTEEN_BIT_BYTES


def capture_sizes(seqs: int, tokens: int, speculative_tokens: int = 0) -> int:
    """How many batch sizes get a CUDA graph: 1, 2, 4, by eights to 256, by sixteens to the largest.

    Source: _set_cudagraph_sizes, config/vllm.py:2398-2640 (0.33.0).
    """
    largest = min(seqs * (1 + speculative_tokens) * 2, 512, tokens)
    sizes = [size for size in (1, 2, 4) if size <= largest]
    sizes += [*range(8, min(largest, 255) + 1, 8), *range(256, largest + 1, 16)]
    return len(sizes)


def scratch(
    model: VllmModel, tp: int, tokens: int, seqs: int, *, eager: bool, alone: bool, rules: VersionRules
) -> Scratch:
    """All estimates of one rank; alone: it is the only one."""
    graphs = 0
    if not eager:
        graphs = _GRAPHS_BASE_BYTES + _GRAPH_BYTES * capture_sizes(seqs, tokens)
        graphs = graphs if rules.subtracts_graphs else _GRAPHS_OLD_BYTES
    return Scratch(
        activation_bytes=activation_bytes(model, tp, tokens, seqs, rules),
        graph_bytes=graphs,
        outside_bytes=_outside_bytes(alone=alone, rules=rules),
    )


def _outside_bytes(*, alone: bool, rules: VersionRules) -> int:
    if not alone:
        return _OUTSIDE_TOGETHER_BYTES
    return _OUTSIDE_V0_BYTES if rules.counts_context else _OUTSIDE_ALONE_BYTES
