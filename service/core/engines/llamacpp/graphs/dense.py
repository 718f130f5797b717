"""Architectures of plain blocks, a row each: how each differs from pre-normed attention and a gated network.

Source: src/models/<name>.cpp (llama.cpp in llama-cpp-python 0.3.36).
"""

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Final

from service.core.architectures.hparams import Hparams
from service.core.engines.llamacpp.graphs import graph
from service.core.engines.llamacpp.graphs.blocks.attend import uncached_attention
from service.core.engines.llamacpp.graphs.blocks.dense import DenseModel, build_dense, no_block
from service.core.engines.llamacpp.graphs.blocks.embeddings import (
    normed_embeddings,
    positioned_embeddings,
    scaled_embeddings,
)
from service.core.engines.llamacpp.graphs.blocks.output import capped_logits
from service.core.engines.llamacpp.graphs.blocks.wide_qkv import flat_normed_qkv, interleaved_qkv, mpt_qkv

BAICHUAN_7B_LAYERS: Final = 32
NO_ROPE_STEP: Final = 4


def _only_baichuan_7b(hp: Hparams, _il: int) -> bool:
    """LLM_TYPE_7B, src/models/baichuan.cpp:4-11; the 13B model uses ALiBi."""
    return hp.n_layer == BAICHUAN_7B_LAYERS


def _all_but_every_fourth(_hp: Hparams, il: int) -> bool:
    """n_no_rope_layer_step, src/models/smollm3.cpp:5, 74."""
    return (il + 1) % NO_ROPE_STEP != 0


def _windowed_blocks_if_any(hp: Hparams, il: int) -> bool:
    """use_rope, src/models/exaone4.cpp:113."""
    return hp.is_swa[il] or hp.swa_type == "none"


_GPT2 = DenseModel(norm="layer", rope=no_block, activation="gelu", embed=positioned_embeddings)
_LAYER_NORMED_GELU = DenseModel(norm="layer", activation="gelu")
_LAYER_NORMED_RELU_SQR = DenseModel(norm="layer", activation="relu_sqr")
_GEMMA = DenseModel(embed=scaled_embeddings, scaled_q=True, activation="gelu", head=capped_logits)

DENSE_MODELS: Final[Mapping[str, DenseModel]] = MappingProxyType(
    {
        "apertus": DenseModel(rope_freqs=True),  # xielu in place of silu, without a gate
        "arcee": DenseModel(rope_freqs=True, activation="relu_sqr"),
        "baichuan": DenseModel(rope=_only_baichuan_7b),
        "bloom": DenseModel(norm="layer", rope=no_block, activation="gelu", embed=normed_embeddings),
        "chatglm": DenseModel(activation="swiglu", gate="sequential"),
        "codeshell": _LAYER_NORMED_GELU,
        "dream": DenseModel(attention=uncached_attention),
        "ernie4_5": DenseModel(),
        "eurobert": DenseModel(attention=uncached_attention, head=None),
        "exaone": DenseModel(rope_freqs=True),
        "exaone4": DenseModel(rope=_windowed_blocks_if_any, rope_freqs=True),
        "gemma": DenseModel(embed=scaled_embeddings, scaled_q=True, activation="gelu"),
        "gemma-embedding": DenseModel(
            embed=scaled_embeddings, scaled_q=True, activation="gelu", attention=uncached_attention, head=None
        ),
        "gemma2": _GEMMA,
        "gemma3": _GEMMA,
        "glm4": DenseModel(activation="swiglu", gate="sequential", pinned_ffn_post_norm=True),
        "gpt2": _GPT2,
        "hunyuan-dense": DenseModel(rope_freqs=True, head_norms="after_rope"),
        "hunyuan_vl": DenseModel(rope_freqs=True, head_norms="after_rope"),
        "internlm2": DenseModel(),
        "jais": DenseModel(norm="layer", rope=no_block),
        "jais2": _LAYER_NORMED_RELU_SQR,
        "llada": DenseModel(attention=uncached_attention),
        "llama-embed": DenseModel(rope_freqs=True, attention=uncached_attention, head=None),
        "maincoder": DenseModel(head_norms="after_rope"),
        "mpt": DenseModel(
            norm="layer",
            rope=no_block,
            activation="gelu",
            embed=positioned_embeddings,
            qkv=mpt_qkv,
            head_norms="in_qkv",
        ),
        "nemotron": _LAYER_NORMED_RELU_SQR,
        "neo-bert": DenseModel(
            activation="swiglu",
            gate="sequential",
            attention=uncached_attention,
            output_norm="enc.output_norm",
            head=None,
        ),
        "olmo": DenseModel(norm="layer", weightless=True),
        "olmo2": DenseModel(qkv=flat_normed_qkv, head_norms="in_qkv"),
        "openelm": DenseModel(qkv=interleaved_qkv, residual_first=True),
        "orion": DenseModel(norm="layer"),
        "paddleocr": DenseModel(),
        "pangu-embedded": DenseModel(),
        "plamo3": DenseModel(activation="swiglu", gate="sequential", pinned_ffn_post_norm=True),
        "pockettts": _LAYER_NORMED_GELU,
        "qwen": DenseModel(),
        "qwen2vl": DenseModel(),
        "refact": DenseModel(rope=no_block),
        "seed_oss": DenseModel(attn_post_norm=None, ffn_norm="post_attention_norm"),
        "smollm3": DenseModel(rope=_all_but_every_fourth),
        "starcoder": _GPT2,
        "starcoder2": _LAYER_NORMED_GELU,
        "xverse": DenseModel(),
    }
)
"""Rows without arguments are built exactly as src/models/internlm2.cpp."""

for _name, _model in DENSE_MODELS.items():
    graph(_name, layer_key=_model.rope)(partial(build_dense, model=_model))
