"""The output layer: final norm and language-model head."""

from service.core.engines.llamacpp.compute.node import Node
from service.core.engines.llamacpp.compute.ops import add, scale, tanh
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


def capped_logits(g: GraphContext, cur: Node) -> Node:
    """Logits squeezed by a soft cap, where the model has one.

    Source: src/models/gemma2.cpp:160-166, gemma3.cpp:206-212 (llama.cpp in llama-cpp-python 0.3.36).
    """
    logits = logits_of(g, cur)
    return scale(tanh(scale(logits))) if g.hp.f_final_logit_softcapping else logits


def scaled_logits(g: GraphContext, cur: Node) -> Node:
    """Logits times `logit_scale`, where the file states one.

    Source: src/models/command-r.cpp:134-138, cohere2.cpp:149-153 (llama.cpp in llama-cpp-python 0.3.36).
    """
    logits = logits_of(g, cur)
    return scale(logits) if g.number("logit_scale") else logits
