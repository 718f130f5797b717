"""Blocks of RWKV models: each token is mixed with the one before it.

Source: the graphs of src/models/rwkv6.cpp, rwkv6qwen2.cpp, rwkv7.cpp and arwkv7.cpp (llama.cpp in llama-cpp-python
0.3.36).
"""

from collections.abc import Callable

from service.core.engines.llamacpp.compute.node import Node
from service.core.engines.llamacpp.compute.ops import add, concat, cpy, reshape, view
from service.core.engines.llamacpp.graphs.blocks.feed_forward import build_ffn
from service.core.engines.llamacpp.graphs.blocks.norms import build_layer_norm, build_rms_norm
from service.core.engines.llamacpp.graphs.blocks.output import logits_of, rms_output
from service.core.engines.llamacpp.graphs.blocks.state import (
    StateInput,
    build_rs,
    load_token_shift,
    state_input,
    store_token_shift,
)
from service.core.engines.llamacpp.graphs.context import Block, GraphContext

TimeMix = Callable[[StateInput, Block, Node, Node, int], Node]
"""Attention's stand-in: (states, weights, normed input, the same one token earlier, index of the block)."""

ChannelMix = Callable[[Block, Node, Node], Node]
"""Feed-forward network: (weights, normed input, the same one token earlier)."""


def rwkv_decoder(g: GraphContext, cur: Node, time_mix: TimeMix, channel_mix: ChannelMix) -> None:
    """Blocks of time mix and channel mix, both shifted, behind layer norms."""
    width, n, n_seqs = g.n_embd, g.n_seq_tokens, g.n_seqs
    embedding_norm = g.shared_weight("token_embd_norm.weight", 0), g.shared_weight("token_embd_norm.bias", 0)
    cur = build_layer_norm(g, cur, *embedding_norm, 0)
    states = state_input(g)
    for il in g.layers:
        block = g.block(il)
        cur = reshape(cur, width, n, n_seqs)
        shift = load_token_shift(g, states, il)
        before = view(shift, (width, 1, n_seqs), shift.nb[1:3])
        before_ffn = view(shift, (width, 1, n_seqs), shift.nb[1:3])
        normed = build_layer_norm(g, cur, block("attn_norm.weight"), block("attn_norm.bias"), il)
        mixed = time_mix(states, block, normed, _shifted(before, normed), il)
        ffn_inp = add(mixed, cur)
        ffn_normed = build_layer_norm(g, ffn_inp, block("attn_norm_2.weight"), block("attn_norm_2.bias"), il)
        previous = _shifted(before_ffn, ffn_normed)
        g.expand(store_token_shift(g, concat(_last(normed), _last(ffn_normed), 1), il))
        rows = (reshape(x, width, g.n_tokens) for x in (ffn_inp, ffn_normed, previous))
        ffn_inp, ffn_normed, previous = g.select_outputs(il, *rows)
        cur = add(channel_mix(block, ffn_normed, previous), ffn_inp)
    cur = build_layer_norm(g, cur, g.output_weight("output_norm.weight"), g.output_weight("output_norm.bias"), -1)
    g.finish(cur, logits_of(g, cur))


def attentionless_decoder(g: GraphContext, cur: Node, time_mix: TimeMix) -> None:
    """Blocks of a transformer whose attention a time mix has replaced."""
    width, n, n_seqs = g.n_embd, g.n_seq_tokens, g.n_seqs
    states = state_input(g)
    for il in g.layers:
        block = g.block(il)
        cur = reshape(cur, width, n, n_seqs)
        shift = load_token_shift(g, states, il)
        normed = build_rms_norm(g, cur, block("attn_norm.weight"), il, block("attn_norm.bias"))
        mixed = time_mix(states, block, normed, _shifted(shift, normed), il)
        g.expand(store_token_shift(g, _last(normed), il))
        ffn_inp = reshape(add(mixed, cur), width, g.n_tokens)
        (ffn_inp,) = g.select_outputs(il, ffn_inp)
        cur = build_rms_norm(g, ffn_inp, block("ffn_norm.weight"), il)
        cur = add(build_ffn(block.unscaled(), cur), ffn_inp)
    rms_output(g, cur)


def store_state(g: GraphContext, output: Node, il: int) -> Node:
    """Store the state behind a time mix's output and return the output proper, flat."""
    size = (g.n_embd * g.hp.wkv_head_size * g.n_seqs,)
    cells = g.cache("recurrent", il, second=True)
    g.expand(cpy(view(output, size), view(cells, size)))
    return view(output, (g.n_embd * g.n_tokens,))


def load_state(g: GraphContext, states: StateInput, il: int) -> Node:
    """The state of the batch's sequences."""
    return build_rs(g, states, g.cache("recurrent", il, second=True), g.hp.n_embd_s, g.n_seqs)


def _shifted(before: Node, cur: Node) -> Node:
    """Each token's predecessor: the one kept from before the batch, then all but the last of it."""
    width, n, n_seqs, _ = cur.ne
    return concat(before, view(cur, (width, n - 1, n_seqs), cur.nb[1:3]), 1)


def _last(cur: Node) -> Node:
    return view(cur, (cur.ne[0], 1, cur.ne[2]), cur.nb[1:3])
