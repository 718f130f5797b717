"""Constants of vLLM's speed, each with what it comes from.

"public runs" are the 160 vLLM rows of tests/speed (4 x RTX 3090 and up to 8 x RTX PRO 6000, releases 0.23 to 0.26); a
test recomputes the error. One constant per number of bits and per number of ranks is what such data carries: single
runs of one configuration differ by 30 %.
"""

from collections.abc import Mapping
from types import MappingProxyType

SOURCE = "fitted to public vLLM runs of 2026 on RTX 3090 and RTX PRO 6000; single runs of one setting differ by 30 %"

BANDWIDTH_FRACTION_BY_BITS: Mapping[int, float] = MappingProxyType({16: 0.6, 8: 0.76, 4: 0.55})
"""Share of the memory bandwidth that reading weights of so many bits reaches in decode. Source: public runs."""

LAYER_S = 40e-6
"""Time of one block that does not depend on bytes, inside a CUDA graph. Source: public runs."""
EXPERT_LAYER_S = 55e-6
"""What routing and small expert matrices add to a block. Source: public runs of mixtures of experts."""
EAGER_FACTOR = 2.0
"""How much longer the fixed time of a block is without CUDA graphs; assumed: launches are no longer replayed."""
STEP_S = 0.5e-3
"""Scheduling, sampling and detokenisation of one step. Source: public runs of small models."""
SEQUENCE_S = 30e-6
"""The same for every further sequence of the step; assumed."""

REDUCTIONS_PER_LAYER = 2
"""All-reduces of a block: after attention and after the feed-forward. Source: RowParallelLinear, layers/linear.py."""
MEETING_S = 8e-6
"""What launching an all-reduce and waiting for the slowest rank add to the link's own time. Source: public runs."""
STAGE_S = 60e-6
"""Handing the hidden state to the next pipeline stage. Assumed: one NCCL send and receive."""

SHARED_BRIDGE_FRACTION = 0.2
"""Share that large all-reduces of more than two ranks reach of what two reach: they share the host's bridges.

Source: time to first token of public runs, 2.7 GB/s of a generation 3 link with four cards.
"""
TENSOR_FRACTION = 0.85
"""Share of the dense 16-bit tensor rate that prompts reach. Source: time to first token of public runs on RTX 3090."""
FP32_MULTIPLE = 1.7
"""The same in units of the FP32 rate, for a card whose tensor rate is not known. Source: the same runs."""
NATIVE_RATE_FACTORS: Mapping[int, float] = MappingProxyType({16: 1.0, 8: 1.5, 4: 2.0})
"""How much faster a card multiplies formats of so many bits that it computes in. Assumed: no such run is among them."""
FITTED_CAPABILITIES = frozenset({(8, 6), (12, 0)})
"""Cards that the runs are of, by compute capability; others are modelled, with wider ranges."""
MODELLED_RANGE_FACTOR, ASSUMED_RANGE_FACTOR = 1.5, 2.0
ATTENTION_FRACTION = 0.4
"""Rate of attention against that of the weights in prefill. Source: public runs of 131,072 and 253,956 tokens."""
EXPERT_BATCH_FRACTION = 0.6
"""Share of the weights' rate at which a batch reads the experts that its further tokens take, in many small matrices.

Source: public runs of 2 to 32 streams on a mixture of 512 experts.
"""
DECODE_RANGE_FRACTION = 0.3
"""Half-width of the range of decode. Source: what one constant per format and number of ranks gives."""
AGGREGATE_RANGE_FRACTION = 0.5
"""Half-width of the range with several streams: prompts of others are processed in between."""
PREFILL_RANGE_FRACTION = 0.5
"""Half-width of the range of prefill and of the time to the first token. Source: public runs."""
