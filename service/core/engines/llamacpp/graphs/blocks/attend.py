"""Attention over whichever cache a model has, for graphs that are written once for several kinds of models."""

from collections.abc import Callable
from typing import TypeAlias

from service.core.engines.llamacpp.compute.node import Node
from service.core.engines.llamacpp.graphs.blocks.attention import build_attn
from service.core.engines.llamacpp.graphs.blocks.attention_variants import (
    build_attn_uncached,
    build_attn_windowed,
    uncached_mask,
    windowed_input,
)
from service.core.engines.llamacpp.graphs.blocks.inputs import attention_input
from service.core.engines.llamacpp.graphs.context import Block, GraphContext

Attend: TypeAlias = Callable[[Block | None, Node, Node, Node, int], Node]
"""build_attn of one model: (block, Q, K, V, index of the block); block None leaves the output projection out."""


def cached_attention(g: GraphContext) -> Attend:
    """Attention over the KV cache, or over the two of a model with a sliding window.

    Source: graph<iswa> of src/models/gemma3.cpp, exaone4.cpp, olmo2.cpp, plamo3.cpp, mellum.cpp
    (llama.cpp in llama-cpp-python 0.3.36).
    """
    if g.hp.swa_type == "none":
        base = attention_input(g)
        return lambda block, q, k, v, il: build_attn(g, base, block, q, k, v, il)
    both = windowed_input(g)
    return lambda block, q, k, v, il: build_attn_windowed(g, both, block, q, k, v, il)


def uncached_attention(g: GraphContext) -> Attend:
    """Attention of the batch's tokens among themselves, in windowed blocks with the window's mask.

    Source: build_attn with llm_graph_input_attn_no_cache, src/llama-graph.cpp:2790-2830.
    """
    masks = uncached_mask(g), uncached_mask(g, windowed=True)
    is_swa = g.hp.is_swa
    return lambda block, q, k, v, il: build_attn_uncached(g, masks[is_swa[il]], block, q, k, v)
