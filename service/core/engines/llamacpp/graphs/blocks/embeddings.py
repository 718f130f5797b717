"""What models do to the token embeddings before the first block.

Source: src/models/gemma.cpp, gpt2.cpp, starcoder.cpp, mpt.cpp, bloom.cpp (llama.cpp in llama-cpp-python 0.3.36).
"""

from service.core.engines.llamacpp.compute.node import Node
from service.core.engines.llamacpp.compute.ops import add, get_rows, scale
from service.core.engines.llamacpp.graphs.blocks.inputs import positions, token_embeddings
from service.core.engines.llamacpp.graphs.blocks.norms import build_layer_norm
from service.core.engines.llamacpp.graphs.context import GraphContext

_POSITIONS = "position_embd.weight"


def scaled_embeddings(g: GraphContext) -> Node:
    """Embeddings times a constant."""
    return scale(token_embeddings(g))


def positioned_embeddings(g: GraphContext) -> Node:
    """Embeddings plus a learned one per position, where the file has these."""
    cur = token_embeddings(g)
    if _POSITIONS not in g.table.outside:
        return cur
    return add(cur, get_rows(g.input_weight(_POSITIONS), positions(g)))


def normed_embeddings(g: GraphContext) -> Node:
    """Embeddings with a layer norm of their own, which counts as part of block 0."""
    return embedding_norm(g, token_embeddings(g))


def embedding_norm(g: GraphContext, cur: Node) -> Node:
    """The layer norm token_embd_norm, whose weights lie with block 0 (src/llama-arch.cpp:732)."""
    weight, bias = g.shared_weight("token_embd_norm.weight", 0), g.shared_weight("token_embd_norm.bias", 0)
    return build_layer_norm(g, cur, weight, bias, 0)
