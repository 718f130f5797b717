"""Models of plain blocks: norm, attention, residual, norm, feed-forward network, residual.

Most architectures differ from this one only in what the file's tensors say already and in a few choices: DenseModel.

Source: src/models/internlm2.cpp:48-139 and its like (llama.cpp in llama-cpp-python 0.3.36).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from service.core.architectures.hparams import Hparams
from service.core.engines.llamacpp.compute.node import Node
from service.core.engines.llamacpp.compute.ops import add, rope, scale
from service.core.engines.llamacpp.graphs.blocks.attend import Attend, cached_attention
from service.core.engines.llamacpp.graphs.blocks.attention import build_qkv
from service.core.engines.llamacpp.graphs.blocks.feed_forward import Activation, Gate, build_ffn
from service.core.engines.llamacpp.graphs.blocks.inputs import positions, token_embeddings
from service.core.engines.llamacpp.graphs.blocks.norms import NormKind, block_norm, output_norm
from service.core.engines.llamacpp.graphs.blocks.output import logits_of
from service.core.engines.llamacpp.graphs.blocks.rope import rope_factors
from service.core.engines.llamacpp.graphs.context import Block, GraphContext

HeadNorms = Literal["before_rope", "after_rope", "in_qkv"]
Qkv: TypeAlias = tuple[Node, Node, Node]


def every_block(_hp: Hparams, _il: int) -> bool:
    """Every block rotates Q and K."""
    return True


def no_block(_hp: Hparams, _il: int) -> bool:
    """Positions come another way: ALiBi, learned embeddings, or none."""
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class DenseModel:
    """What an architecture of plain blocks chooses; which norms, biases and gates exist, its tensors say.

    norm: of the residual stream and the output; weightless: its norms have no weights at all.
    head_norms, head_norm: where norms of Q and K stand (if the block has them), and which they are; "in_qkv": `qkv`
    makes them.
    rope: which blocks rotate Q and K; rope_freqs: with the file's own frequencies.
    scaled_q: Q is scaled by an operation of its own instead of within attention.
    attn_post_norm, ffn_norm: names of norms before the first residual and before the network.
    pinned_ffn_post_norm: whether the norm post_ffw_norm is tied to the block's backend (build_norm with il, not -1).
    residual_first: the attention's output is added to the residual and not the other way round.
    qkv: projections; embed: from tokens to the first residual; attention: over a cache or not; output_norm: the name of
    the norm behind the last block; head: from there to logits, None where a model only embeds.
    """

    norm: NormKind = "rms"
    weightless: bool = False
    head_norms: HeadNorms = "before_rope"
    head_norm: NormKind = "rms"
    rope: Callable[[Hparams, int], bool] = every_block
    rope_freqs: bool = False
    scaled_q: bool = False
    attn_post_norm: str | None = "post_attention_norm"
    ffn_norm: str = "ffn_norm"
    pinned_ffn_post_norm: bool = False
    activation: Activation = "silu"
    gate: Gate = "parallel"
    qkv: Callable[[GraphContext, Block, Node, int], Qkv] = build_qkv
    embed: Callable[[GraphContext], Node] = token_embeddings
    attention: Callable[[GraphContext], Attend] = cached_attention
    output_norm: str = "output_norm"
    residual_first: bool = False
    head: Callable[[GraphContext, Node], Node] | None = logits_of


def build_dense(g: GraphContext, model: DenseModel) -> None:
    """The whole graph."""
    cur = model.embed(g)
    attend = model.attention(g)
    for il in g.layers:
        block = g.block(il)
        residual = cur
        cur = dense_norm(g, model, block, "attn_norm", cur, il)
        cur = attend(block, *rotated_qkv(g, model, block, cur, il), il)
        cur, residual = g.select_outputs(il, cur, residual)
        cur = add_ffn(g, model, block, cur, residual, il)
    cur = output_norm(g, model.norm, cur, model.output_norm)
    g.finish(cur, None if model.head is None else model.head(g, cur))


def dense_norm(g: GraphContext, model: DenseModel, block: Block, name: str, cur: Node, il: int) -> Node:
    """A norm of the residual stream, if the block has it."""
    if model.weightless or block.has(name + ".weight"):
        return block_norm(g, model.norm, block, name, cur, il)
    return cur


def add_ffn(g: GraphContext, model: DenseModel, block: Block, cur: Node, residual: Node, il: int) -> Node:
    """Residual around attention, then the feed-forward network and its residual."""
    if model.attn_post_norm is not None and block.has(model.attn_post_norm + ".weight"):
        cur = block_norm(g, model.norm, block, model.attn_post_norm, cur, il)
    ffn_inp = add(residual, cur) if model.residual_first else add(cur, residual)
    cur = dense_norm(g, model, block, model.ffn_norm, ffn_inp, il)
    cur = build_ffn(block, cur, model.activation, model.gate, act_scales=block("ffn.act.scales"))
    if block.has("post_ffw_norm.weight"):
        cur = block_norm(g, model.norm, block, "post_ffw_norm", cur, il if model.pinned_ffn_post_norm else -1)
    return add(cur, ffn_inp)


def rotated_qkv(g: GraphContext, model: DenseModel, block: Block, cur: Node, il: int) -> Qkv:
    """Q, K and V as attention takes them: projected, normed and rotated."""
    q, k, v = model.qkv(g, block, cur, il)
    if model.head_norms == "before_rope":
        q, k = _normed_heads(g, model, block, q, k, il)
    if model.rope(g.hp, il):
        pos, factors = positions(g), rope_factors(g, il) if model.rope_freqs else None
        q, k = rope(q, pos, factors), rope(k, pos, factors)
    if model.head_norms == "after_rope":
        q, k = _normed_heads(g, model, block, q, k, il)
    return scale(q) if model.scaled_q else q, k, v


def _normed_heads(g: GraphContext, model: DenseModel, block: Block, q: Node, k: Node, il: int) -> tuple[Node, Node]:
    if block.has("attn_q_norm.weight"):
        q = block_norm(g, model.head_norm, block, "attn_q_norm", q, il)
    if block.has("attn_k_norm.weight"):
        k = block_norm(g, model.head_norm, block, "attn_k_norm", k, il)
    return q, k
