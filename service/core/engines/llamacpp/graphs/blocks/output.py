"""The output layer: final norm and language-model head."""

from service.core.engines.llamacpp.compute.node import Node
from service.core.engines.llamacpp.compute.ops import add
from service.core.engines.llamacpp.graphs.blocks.linear import linear
from service.core.engines.llamacpp.graphs.blocks.norms import build_rms_norm
from service.core.engines.llamacpp.graphs.context import GraphContext


def head_weight(g: GraphContext) -> Node:
    """The output matrix: the file's own, else the token embedding's second copy."""
    weight = g.output_weight("output.weight")
    if weight is None:
        weight = g.output_weight("token_embd.weight")
    if weight is None:
        raise KeyError("output.weight")
    return weight


def logits_of(g: GraphContext, cur: Node) -> Node:
    """`cur` times the output matrix, with its scale and bias."""
    logits = linear(head_weight(g), cur, g.output_weight("output.scale"))
    bias = g.output_weight("output.bias")
    return logits if bias is None else add(logits, bias)


def rms_output(g: GraphContext, cur: Node) -> None:
    """RMS norm and head: the end of most graphs."""
    cur = build_rms_norm(g, cur, g.output_weight("output_norm.weight"), -1)
    g.finish(cur, logits_of(g, cur))
