"""WavTokenizer's decoder: convolutions and one attention over audio features, with time along rows.

Source: src/models/wavtokenizer-dec.cpp:118-264; ggml_conv_1d and ggml_conv_1d_dw, ggml/src/ggml.c:4625-4673
(llama.cpp in llama-cpp-python 0.3.36).
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from service.core.architectures.hparams import Hparams
from service.core.engines.llamacpp.compute.node import F16, F32, Node
from service.core.engines.llamacpp.compute.ops import (
    add,
    cont,
    custom,
    gelu,
    group_norm,
    mul,
    mul_mat,
    reshape,
    sigmoid,
    soft_max,
    transpose,
)
from service.core.engines.llamacpp.graphs import graph
from service.core.engines.llamacpp.graphs.blocks.embeddings import embedding_norm
from service.core.engines.llamacpp.graphs.blocks.inputs import token_embeddings
from service.core.engines.llamacpp.graphs.blocks.norms import build_layer_norm, output_norm
from service.core.engines.llamacpp.graphs.blocks.output import logits_of
from service.core.engines.llamacpp.graphs.context import GraphContext
from service.core.types import TensorType

Layer: TypeAlias = Callable[[str], Node]
"""The weights of one layer, by their names."""

ATTENTION_LAYER: Final = 2
NORM_LAYER: Final = 5


def _layer(g: GraphContext, part: str, il: int) -> Layer:
    def weight(name: str) -> Node:
        node = g.shared_weight(f"{part}{name}", il)
        if node is None:
            raise KeyError(part + name)
        return node

    return weight


def _every_layer(_hp: Hparams, il: int) -> int:
    """Tensors of layers are not told apart by block."""
    return il


def _swapped(cur: Node) -> Node:
    """Channels along rows instead of time, or back."""
    return cont(transpose(cur))


def _conv(layer: Layer, name: str, cur: Node) -> Node:
    """Convolution over time with as many steps out as in, and its bias."""
    kernel = layer(name + ".weight")
    width, n_in, n_out, _ = kernel.ne
    patches = custom((n_in * width, cur.ne[0], cur.ne[2], 1), (kernel, cur), _patch_type(kernel))
    n_steps = patches.ne[1]
    cur = mul_mat(reshape(patches, patches.ne[0], n_steps * patches.ne[2]), reshape(kernel, width * n_in, n_out))
    return add(reshape(cur, n_steps, n_out, patches.ne[2]), layer(name + ".bias"))


def _conv_per_channel(layer: Layer, name: str, cur: Node) -> Node:
    """The same with one kernel per channel."""
    kernel = layer(name + ".weight")
    n_steps, n_channels, n_rows, _ = cur.ne
    cur = reshape(cur, n_steps, 1, n_channels, n_rows)
    patches = custom((kernel.ne[1] * kernel.ne[0], n_steps, n_channels, 1), (kernel, cur), _patch_type(kernel))
    cur = mul_mat(patches, kernel)
    return add(reshape(cur, cur.ne[0], cur.ne[2]), layer(name + ".bias"))


def _patch_type(kernel: Node) -> TensorType:
    return F32 if kernel.type.name == "bf16" else F16


def _group_norm(g: GraphContext, layer: Layer, name: str, cur: Node) -> Node:
    """LLM_NORM_GROUP, tied to the first layer's backend."""
    cur = group_norm(reshape(cur, cur.ne[0], 1, cur.ne[1]))
    cur = reshape(cur, cur.ne[0], cur.ne[2])
    g.pin_norm(cur, 0)
    return add(mul(cur, layer(name + ".weight")), layer(name + ".bias"))


def _residual(g: GraphContext, layer: Layer, cur: Node) -> Node:
    inp = cur
    for norm, conv in (("norm1", "conv1"), ("norm2", "conv2")):
        cur = _group_norm(g, layer, norm, cur)
        cur = _conv(layer, conv, mul(sigmoid(cur), cur))
    return add(cur, inp)


def _attention(g: GraphContext, layer: Layer, cur: Node) -> Node:
    inp = cur
    cur = _group_norm(g, layer, "attn_norm", cur)
    q, k, v = (_conv(layer, name, cur) for name in ("attn_q", "attn_k", "attn_v"))
    cur = mul_mat(soft_max(mul_mat(_swapped(k), _swapped(q))), v)
    return add(_conv(layer, "attn_output", cur), inp)


def _convnext(g: GraphContext, layer: Layer, inp: Node) -> Node:
    cur = _swapped(_conv_per_channel(layer, "dw", inp))
    cur = build_layer_norm(g, cur, layer("norm.weight"), layer("norm.bias"), -1)
    cur = gelu(add(mul_mat(layer("pw1.weight"), cur), layer("pw1.bias")))
    cur = add(mul_mat(layer("pw2.weight"), cur), layer("pw2.bias"))
    return add(_swapped(mul(cur, layer("gamma.weight"))), inp)


@graph("wavtokenizer-dec", layer_key=_every_layer)
def wavtokenizer_decoder(g: GraphContext) -> None:
    """src/models/wavtokenizer-dec.cpp."""
    cur = _conv(_layer(g, "", 0), "conv1d", _swapped(token_embeddings(g)))
    for il in range(int(g.number("posnet.block_count"))):
        layer = _layer(g, f"posnet.{il}.", il)
        if il == NORM_LAYER:
            cur = _group_norm(g, layer, "attn_norm", cur)
        else:
            cur = _attention(g, layer, cur) if il == ATTENTION_LAYER else _residual(g, layer, cur)
    cur = _swapped(embedding_norm(g, _swapped(cur)))
    for il in range(int(g.number("convnext.block_count"))):
        cur = _convnext(g, _layer(g, f"convnext.{il}.", il), cur)
    cur = output_norm(g, "layer", _swapped(cur))
    g.finish(logits_of(g, cur), None)
