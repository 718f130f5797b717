"""Rotary frequencies that a file brings along."""

from service.core.engines.llamacpp.compute.node import Node
from service.core.engines.llamacpp.graphs.context import GraphContext


def rope_factors(g: GraphContext, il: int) -> Node | None:
    """Factors for block `il`: rope_freqs, else the long or short ones by context; None where the file has none.

    Source: llama_model::get_rope_factors, src/llama-model.cpp:2337-2350 (llama.cpp in llama-cpp-python 0.3.36).
    """
    freqs = g.shared_weight("rope_freqs.weight", il)
    if freqs is not None:
        return freqs
    long = g.ctx.n_ctx_seq > g.number("rope.scaling.original_context_length", g.hp.n_ctx_train)
    return g.shared_weight("rope_factors_long.weight" if long else "rope_factors_short.weight", il)
