"""Per-layer input embeddings (Gemma 3n and 4): every block takes a part of its own from a second embedding table.

Source: build_inp_per_layer and project_per_layer_inputs, src/models/gemma3n.cpp:292-355, gemma4.cpp:460-529
(llama.cpp in llama-cpp-python 0.3.36).
"""

from service.core.engines.llamacpp.compute.node import I32, Node
from service.core.engines.llamacpp.compute.ops import add, cont, get_rows, mul_mat, reshape, scale, swap_12, view
from service.core.engines.llamacpp.graphs.blocks.norms import build_rms_norm
from service.core.engines.llamacpp.graphs.context import GraphContext


def per_layer_inputs(g: GraphContext, cur: Node) -> Node:
    """Parts of all blocks: [part, tokens, blocks], from the second table and from the embedded tokens `cur`."""
    n_layer = g.hp.n_layer
    rows = get_rows(g.input_weight("per_layer_token_embd.weight"), g.input("per_layer_tokens", I32, g.n_tokens))
    part = rows.ne[0] // n_layer
    selected = scale(reshape(rows, part, n_layer, g.n_tokens))
    g.expand(selected)
    weight, norm_weight = (
        g.shared_weight(name, 0) for name in ("per_layer_model_proj.weight", "per_layer_proj_norm.weight")
    )
    if weight is None:
        raise KeyError("per_layer_model_proj.weight")
    projected = reshape(scale(mul_mat(weight, cur)), part, n_layer, g.n_tokens)
    projected = build_rms_norm(g, projected, norm_weight, -1)
    return cont(swap_12(scale(add(projected, selected))))


def slice_of(stacked: Node) -> Node:
    """One [n, tokens] of [n, tokens, m]; which one does not matter to memory."""
    return view(stacked, stacked.ne[:2], (stacked.nb[1],))
