"""Embeddings of the last few tokens together, looked up by hash and added to one block's input.

Source: build_inp_ple, build_ple and build_conv_state_at, src/models/qwen4exp.cpp:1150-1308
(llama.cpp in llama-cpp-python 0.3.36).
"""

from service.core.engines.llamacpp.compute.node import F32, I32, Node
from service.core.engines.llamacpp.compute.ops import (
    add,
    cast,
    clamp,
    concat,
    cont,
    cpy,
    get_rows,
    mul,
    mul_mat,
    repeat_4d,
    reshape,
    rms_norm,
    scale,
    sigmoid,
    silu,
    sqrt,
    sum_rows,
    transpose,
    unary,
    view,
)
from service.core.engines.llamacpp.graphs.blocks.state import StateInput, build_rs
from service.core.engines.llamacpp.graphs.context import Block, GraphContext


def ngram_embeddings(g: GraphContext) -> Node:
    """Rows of the hash table for every token, one per head, side by side."""
    rows = g.input("ple_rows", I32, g.hp.ple_n_heads * g.n_tokens)
    found = get_rows(g.input_weight("per_layer_token_embd.weight"), rows)
    found = reshape(found, g.hp.n_embd_per_layer * g.hp.ple_n_heads, g.n_tokens)
    g.expand(found)
    return found


def conv_state_at(g: GraphContext, inp: StateInput, cells: Node, x: Node, kept: int) -> Node:
    """The `kept` columns before the batch and then those of x [channels, tokens, sequences]; the last are stored."""
    channels, n_seqs = x.ne[0], g.n_seqs
    state = reshape(build_rs(g, inp, cells, cells.ne[0], n_seqs), kept, channels, n_seqs)
    conv = concat(state, transpose(x), 0)
    for _ in range(g.ctx.n_rs_seq + 1):
        last = cont(view(conv, (kept, channels, n_seqs), conv.nb[1:3]))
        g.expand(cpy(last, view(cells, (kept * channels, n_seqs), (cells.nb[1],))))
    return conv


def add_ngrams(g: GraphContext, inp: StateInput, block: Block, found: Node, streams: Node, il: int) -> Node:
    """All residual streams plus the gated, convolved embeddings."""
    width, count, n_tokens, _ = streams.ne

    def normed(x: Node, name: str) -> Node:
        return mul(rms_norm(reshape(x, width, count, n_tokens)), block.need(f"ple_norm_{name}.weight"))

    key, value = mul_mat(block.need("ple_key.weight"), found), mul_mat(block.need("ple_value.weight"), found)
    key, query = normed(key, "key"), normed(streams, "query")
    match = scale(sum_rows(mul(key, query)))
    magnitude = sqrt(clamp(unary(match)))
    gate = sigmoid(mul(unary(match), magnitude))
    spread = repeat_4d(reshape(value, width, 1, n_tokens), width, count, n_tokens, 1)
    gated = mul(spread, gate)
    flat = reshape(normed(reshape(gated, width * count, n_tokens), "conv"), width * count, n_tokens)
    convolved = silu(_dilated_convolution(g, inp, block, flat, il))
    convolved = reshape(cont(convolved), width, count, n_tokens)
    return add(streams, add(gated, convolved))


def _dilated_convolution(g: GraphContext, inp: StateInput, block: Block, x: Node, il: int) -> Node:
    """A sum of shifted copies, one per tap."""
    channels, n, n_seqs = x.ne[0], g.n_seq_tokens, g.n_seqs
    kernel, taps = block.need("ple_conv1d.weight"), g.hp.ple_conv_kernel
    history = (taps - 1) * g.hp.ple_ngram_size
    padded = conv_state_at(g, inp, g.cache("ple", il), reshape(x, channels, n, n_seqs), history)
    total: Node | None = None
    for _ in range(taps):
        shifted = cont(transpose(view(padded, (n, channels, n_seqs), padded.nb[1:3])))
        weight = reshape(cont(view(kernel, (1, channels), kernel.nb[1:2])), channels)
        if weight.type is not F32:
            weight = cast(weight, F32)
        term = mul(shifted, weight)
        total = term if total is None else add(total, term)
    if total is None:
        raise KeyError("ple.conv_kernel")
    return total
