"""T5: an encoder with relative positions, and a decoder that also attends to the encoder's output.

llama.cpp reserves memory for the decoder alone, or for the encoder where a file has nothing else.
"""

from service.core.architectures.hparams import Hparams
from service.core.engines.llamacpp.compute.node import F32, I32, Node
from service.core.engines.llamacpp.compute.ops import add, cont, get_rows, mul_mat, permute, reshape
from service.core.engines.llamacpp.graphs import graph
from service.core.engines.llamacpp.graphs.blocks.attention import build_attn
from service.core.engines.llamacpp.graphs.blocks.attention_variants import build_attn_uncached, uncached_mask
from service.core.engines.llamacpp.graphs.blocks.feed_forward import build_ffn
from service.core.engines.llamacpp.graphs.blocks.inputs import attention_input, mask_input, token_embeddings
from service.core.engines.llamacpp.graphs.blocks.norms import build_rms_norm, output_norm
from service.core.engines.llamacpp.graphs.blocks.output import logits_of
from service.core.engines.llamacpp.graphs.context import Block, GraphContext


class _StackBlock(Block):
    """The weights `<stack>.blk.<il>.*` of one block of the encoder ("enc") or the decoder ("dec")."""

    __slots__ = ("_g", "_prefix")

    def __init__(self, g: GraphContext, stack: str, il: int) -> None:
        super().__init__(g.table, il, g.backends[il], g.moved)
        self._g = g
        self._prefix = f"{stack}.blk.{il}."

    def __call__(self, name: str) -> Node | None:
        """The weight called `<stack>.blk.<il>.<name>`."""
        return self._g.shared_weight(self._prefix + name, self._il)

    def has(self, name: str) -> bool:
        """Whether the block has the tensor."""
        return self._prefix + name in self._g.table.outside


def _every_block(_hp: Hparams, il: int) -> int:
    """Tensors of stacks are not told apart by block, and the first block's biases are used by all."""
    return il


def _heads(g: GraphContext, block: Block, prefix: str, q: Node, kv: Node, il: int) -> tuple[Node, Node, Node]:
    """Q of `q`, K and V of `kv`, in heads."""
    head, heads, heads_kv = g.hp.n_embd_head_v(il), g.hp.n_head[0], g.hp.n_head_kv[0]
    q = mul_mat(block.need(prefix + "attn_q.weight"), q)
    k, v = mul_mat(block.need(prefix + "attn_k.weight"), kv), mul_mat(block.need(prefix + "attn_v.weight"), kv)
    n_kv = kv.ne[1]
    return reshape(q, head, heads, g.n_tokens), reshape(k, head, heads_kv, n_kv), reshape(v, head, heads_kv, n_kv)


def _position_bias(g: GraphContext, buckets: Node, stack: str, block: Block) -> Node:
    """build_pos_bias, src/llama-graph.cpp:2601-2614; blocks without biases of their own use the first block's."""
    table = block("attn_rel_b.weight") or _StackBlock(g, stack, 0).need("attn_rel_b.weight")
    bias = get_rows(table, reshape(buckets, buckets.ne[0] * buckets.ne[1]))
    bias = reshape(bias, bias.ne[0], buckets.ne[0], buckets.ne[1])
    return cont(permute(bias, 2, 0, 1, 3))


def _feed_forward(g: GraphContext, block: Block, ffn_inp: Node, il: int) -> Node:
    """Relu (T5) or gated gelu (Flan-T5), and the residual."""
    gated = block.has("ffn_gate.weight")
    cur = build_rms_norm(g, ffn_inp, block("ffn_norm.weight"), il)
    return add(build_ffn(block, cur, "gelu" if gated else "relu"), ffn_inp)


def _project(block: Block, name: str, cur: Node) -> Node:
    return mul_mat(block.need(name), cur)


@graph("t5encoder", layer_key=_every_block)
def t5_encoder(g: GraphContext) -> None:
    """src/models/t5.cpp, graph<true>."""
    cur, mask = token_embeddings(g), uncached_mask(g)
    buckets = g.input("pos_bucket_enc", I32, g.n_tokens, g.n_tokens)
    for il in g.layers:
        block = _StackBlock(g, "enc", il)
        residual = cur
        cur = build_rms_norm(g, cur, block("attn_norm.weight"), il)
        q, k, v = _heads(g, block, "", cur, cur, il)
        bias = _position_bias(g, buckets, "enc", block)
        cur = _project(block, "attn_o.weight", build_attn_uncached(g, mask, None, q, k, v, bias=bias))
        cur, residual = g.select_outputs(il, cur, residual)
        cur = _feed_forward(g, block, add(cur, residual), il)
    g.finish(output_norm(g, "rms", cur, "enc.output_norm"), None)


@graph("t5", layer_key=_every_block)
def t5_decoder(g: GraphContext) -> None:
    """src/models/t5.cpp, graph<false>: as many rows of encoder output as the model was trained on."""
    hp = g.hp
    cur, inp, n_enc = token_embeddings(g), attention_input(g), hp.n_ctx_train
    encoded = g.input("cross_embd", F32, hp.n_embd_inp, n_enc)
    cross_mask = mask_input(g, "cross_mask", (n_enc, g.n_tokens, 1, 1))
    buckets = g.input("pos_bucket_dec", I32, g.cells("base"), g.n_tokens)
    for il in range(hp.dec_n_layer):
        block = _StackBlock(g, "dec", il)
        residual = cur
        cur = build_rms_norm(g, cur, block("attn_norm.weight"), il)
        q, k, v = _heads(g, block, "", cur, cur, il)
        bias = _position_bias(g, buckets, "dec", block)
        cur = _project(block, "attn_o.weight", build_attn(g, inp, None, q, k, v, il, bias=bias))
        residual = cur = add(cur, residual)
        cur = build_rms_norm(g, cur, block("cross_attn_norm.weight"), il)
        q, k, v = _heads(g, block, "cross_", cur, encoded, il)
        cur = _project(block, "cross_attn_o.weight", build_attn_uncached(g, cross_mask, None, q, k, v))
        if il == hp.dec_n_layer - 1:
            rows = g.input("out_ids", I32, g.n_outputs)
            cur, residual = get_rows(cur, rows), get_rows(residual, rows)
        cur = _feed_forward(g, block, add(cur, residual), il)
    cur = output_norm(g, "rms", cur, "dec.output_norm")
    g.finish(cur, logits_of(g, cur))
