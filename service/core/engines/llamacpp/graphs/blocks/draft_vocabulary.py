"""Embeddings and head of draft models, whose vocabulary may be a part of their target's.

Source: src/models/eagle3.cpp:296-325, dflash.cpp:700-770 (llama.cpp in llama-cpp-python 0.3.36).
"""

from service.core.engines.llamacpp.compute.node import F16, F32, WEIGHT, Node, leaf
from service.core.engines.llamacpp.compute.ops import fill, reshape, set_rows
from service.core.engines.llamacpp.graphs.blocks.output import head_weight
from service.core.engines.llamacpp.graphs.context import GraphContext


def draft_embeddings(g: GraphContext) -> Node:
    """The draft's token embeddings; its target's, on the host as well, where it has none."""
    own = "token_embd.weight" in g.table.outside
    return g.input_weight("token_embd.weight") if own else _borrowed(g, g.host)


def draft_head(g: GraphContext) -> Node:
    """The draft's output matrix, else its tied embeddings, else its target's, taken to lie where its own would."""
    own = "output.weight" in g.table.outside or ("token_embd.weight" in g.table.outside and g.hp.arch.name == "dflash")
    return head_weight(g) if own else _borrowed(g, g.output_backend)


def _borrowed(g: GraphContext, backend: int) -> Node:
    node = leaf(F16, (g.n_embd, g.hp.n_vocab, 1, 1), buffer=backend, flags=WEIGHT)
    node.seen = True
    return node


def over_target_vocabulary(g: GraphContext, logits: Node) -> Node:
    """Logits of the draft's own vocabulary, scattered over the target's where the file maps them (d2t)."""
    return scattered(g, logits, draft_embeddings(g).ne[1])


def scattered(g: GraphContext, rows: Node, n_vocab: int) -> Node:
    """Rows over the draft's vocabulary as rows over the target's; unchanged where the file has no map."""
    by_token = g.output_weight("d2t")
    if by_token is None:
        return rows
    n_draft, n_rows = rows.ne[0], rows.ne[1]
    wide = fill(leaf(F32, (1, n_vocab, n_rows, 1)))
    wide = set_rows(wide, reshape(rows, 1, n_draft, n_rows), reshape(by_token, n_draft))
    return reshape(wide, n_vocab, n_rows)
