"""What DFlash drafts have beside a decoder: mixing along a block of draft tokens, Markov head and candidate selector.

Source: src/models/dflash.cpp:296-585 (llama.cpp in llama-cpp-python 0.3.36).
"""

from service.core.engines.llamacpp.compute.node import F32, I32, OUTPUT, Node, leaf
from service.core.engines.llamacpp.compute.ops import (
    add,
    cast,
    concat,
    cont,
    cont_4d,
    custom,
    fill,
    get_rows,
    mul,
    mul_mat,
    pad,
    repeat,
    repeat_4d,
    reshape,
    sigmoid,
    swap_12,
    top_k,
    view,
)
from service.core.engines.llamacpp.graphs.blocks.draft_vocabulary import scattered
from service.core.engines.llamacpp.graphs.blocks.linear import linear
from service.core.engines.llamacpp.graphs.context import GraphContext


def mix_along_block(g: GraphContext, hidden: Node, dynamic: Node, base: Node) -> Node:
    """build_dflash2_conv: every token plus weighted tokens before it in its block."""
    width, n_tokens, n_blocks = hidden.ne[0], hidden.ne[1], g.n_seqs
    kernel, group = int(g.number("conv_kernel_size")), int(g.number("conv_group_size"))
    n_groups, block = width // group, n_tokens // n_blocks
    blocks = reshape(hidden, width, block, n_blocks)
    coeffs = reshape(dynamic, n_groups, kernel, 2, n_tokens)
    coeffs = cont(view(coeffs, (n_groups, kernel, n_tokens), (coeffs.nb[1], coeffs.nb[3])))
    coeffs = repeat_4d(reshape(coeffs, 1, n_groups, kernel, n_tokens), group, n_groups, kernel, n_tokens)
    weights = add(coeffs, reshape(view(base, (width * kernel,)), group, n_groups, kernel, 1))
    total = None
    for tap in range(min(kernel, block)):
        values = blocks
        if tap:
            before = view(blocks, (width, block - tap, n_blocks), blocks.nb[1:3])
            values = custom((width, block, n_blocks, 1), (before,))  # ggml_pad_ext: zeros in front
        weight = cont(view(weights, (group, n_groups, 1, n_tokens), weights.nb[1:]))
        term = mul(reshape(weight, width, n_tokens), reshape(values, width, n_tokens))
        total = term if total is None else add(total, term)
    if total is None:
        raise ValueError("conv_kernel_size is 0")
    return total


def markov_logits(g: GraphContext, logits: Node, hidden: Node, tokens: Node) -> Node:
    """build_dspark_markov_head: logits of each position biased by the token before it, position by position.

    Longer blocks than the draft was made for, as in a prompt, are left as they are.
    """
    n_vocab, n_tokens, n_blocks = logits.ne[0], logits.ne[1], g.n_seqs
    block = n_tokens // n_blocks
    if block > g.number("block_size"):
        return logits
    weights = [_output(g, f"markov_{name}.weight") for name in ("w1", "w2")]
    proj = g.output_weight("conf_proj.weight")
    previous = cont_4d(view(tokens, (1, n_blocks), (block * tokens.nb[0],)), n_blocks)
    columns: Node | None = None
    certainty: Node | None = None
    first = 0 if g.metadata.get(g.prefix + "sample_from_anchor") is not False else 1
    if first:
        columns = cont(view(logits, (n_vocab, n_blocks), (block * logits.nb[1],)))
        if proj is not None:
            certainty = sigmoid(cont(view(logits, (1, n_blocks), (block * logits.nb[1],))))
    for position in range(first, block):
        embedded = get_rows(weights[0], previous)
        bias = scattered(g, linear(weights[1], embedded, g.output_weight("markov_w2.scale")), n_vocab)
        column = add(view(logits, (n_vocab, n_blocks), (block * logits.nb[1],)), bias)
        columns = column if columns is None else concat(columns, column, 1)
        if proj is not None:
            sure = _certainty(g, proj, hidden, embedded, block)
            certainty = sure if certainty is None else concat(certainty, sure, 1)
        if position + 1 < block:
            previous = custom((n_blocks, 1, 1, 1), (column,), I32)  # argmax
    if columns is None:
        return logits
    if certainty is not None:
        certainty = _by_block(certainty, block, n_blocks)
        certainty = repeat(certainty, hidden)
        certainty.flags |= OUTPUT
        g.expand(certainty)
    return _by_block(columns, block, n_blocks)


def _certainty(g: GraphContext, proj: Node, hidden: Node, embedded: Node, block: int) -> Node:
    row = cont(view(hidden, (hidden.ne[0], embedded.ne[1]), (block * hidden.nb[1],)))
    sure = mul_mat(proj, concat(row, embedded, 0))
    bias = g.output_weight("conf_proj.bias")
    return sigmoid(sure if bias is None else add(sure, bias))


def _by_block(columns: Node, block: int, n_blocks: int) -> Node:
    """Columns in order of position as columns in order of block."""
    n = columns.ne[0]
    return reshape(cont(swap_12(reshape(columns, n, n_blocks, block))), n, n_blocks * block)


def select_candidates(g: GraphContext, logits: Node, hidden: Node, tokens: Node) -> None:
    """build_dflash2_selector: the best tokens of each position, and what each is worth behind each of those before."""
    n_tokens, n_blocks, k = g.n_tokens, g.n_seqs, int(g.number("selector_top_k"))
    per_block = n_tokens // n_blocks
    block = min(per_block, int(g.number("block_size")))
    candidates = top_k(logits, k)
    unary = reshape(get_rows(reshape(logits, 1, logits.ne[0], n_tokens), candidates), k, n_tokens)
    gate = linear(_output(g, "selector_hidden.weight"), hidden)
    by_block = [reshape(node, node.ne[0], per_block, n_blocks) for node in (candidates, unary, gate)]
    packed = fill(leaf(F32, (g.n_embd, 1, n_blocks, 1)))
    if block > 1:
        anchors = cont_4d(view(tokens, (1, n_blocks), (per_block * tokens.nb[0],)), n_blocks)
        packed = concat(packed, _score_run(g, by_block, 1, anchors), 1)
    if block > 2:
        earlier = cont(view(by_block[0], (k, block - 2, n_blocks), by_block[0].nb[1:3]))
        packed = concat(packed, _score_run(g, by_block, block - 2, reshape(earlier, k * (block - 2) * n_blocks)), 1)
    packed = reshape(packed, g.n_embd, block * n_blocks)
    packed.flags |= OUTPUT
    g.expand(packed)


def _score_run(g: GraphContext, by_block: list[Node], n_positions: int, earlier: Node) -> Node:
    """Candidates of `n_positions` positions and their scores behind the tokens `earlier`, as wide as an embedding."""
    n_blocks = g.n_seqs
    candidates, unary, gate = (cont(view(node, (node.ne[0], n_positions, n_blocks), node.nb[1:3])) for node in by_block)
    k, rank = candidates.ne[0], gate.ne[0]
    n_earlier = earlier.ne[0] // (n_positions * n_blocks)
    ids = reshape(candidates, k * n_positions * n_blocks)
    after = reshape(get_rows(_output(g, "selector_successor.weight"), ids), rank, k, n_positions, n_blocks)
    before = get_rows(_output(g, "selector_predecessor.weight"), earlier)
    before = reshape(before, rank, n_earlier, n_positions, n_blocks)
    gated = mul(before, repeat(reshape(gate, rank, 1, n_positions, n_blocks), before))
    score = mul_mat(after, gated)
    if n_earlier == 1:
        score = repeat_4d(score, k, k, n_positions, n_blocks)
    score = add(score, repeat(reshape(unary, k, 1, n_positions, n_blocks), score))
    row = concat(cast(candidates, F32), reshape(score, k * k, n_positions, n_blocks), 0)
    return pad(row, g.n_embd - k - k * k)


def _output(g: GraphContext, name: str) -> Node:
    weight = g.output_weight(name)
    if weight is None:
        raise KeyError(name)
    return weight
