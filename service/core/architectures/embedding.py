"""Width of what goes into and comes out of a model, and how its tokens are counted."""

from typing import TypedDict

from service.core.architectures.architecture import Architecture
from service.core.architectures.metadata import Metadata, unreadable
from service.core.types import LongArray, Model

UNSPECIFIED = 2**32 - 1


class Embedding(TypedDict):
    """Widths at the ends of the graph."""

    n_embd: int
    n_embd_inp: int
    n_embd_out: int
    n_deepstack_layers: int
    n_vocab: int
    n_cls_out: int
    n_ctx_train: int


def read_embedding(meta: Metadata, arch: Architecture, model: Model) -> Embedding:
    """Embedding width, input width with deepstack features, output width, vocabulary and trained context.

    Source: src/llama-model.cpp:1319-1350 and 1480-1484; llama_hparams::n_embd_inp, src/llama-hparams.cpp:114-126;
    src/models/granite.cpp, deepseek4.cpp (llama.cpp in llama-cpp-python 0.3.36).
    """
    width_key = "features_length" if arch.features_are_embedding else "embedding_length"
    n_embd = meta.count(width_key)
    if n_embd == 0:
        raise unreadable(meta.key(width_key), "is 0")
    out_key = "embedding_length" if arch.features_are_embedding else "embedding_length_out"
    n_embd_out = meta.count(out_key, n_embd) or n_embd
    if arch.hyper_connected_output:
        n_embd_out = meta.count("hyper_connection.count") * n_embd
    deepstack = _deepstack_layers(meta)
    labels = model.metadata.get(meta.key("classifier.output_labels"))
    return Embedding(
        n_embd=n_embd,
        n_embd_inp=n_embd_out if arch.input_is_output_width else n_embd * (1 + deepstack),
        n_embd_out=n_embd_out,
        n_deepstack_layers=deepstack,
        n_vocab=_vocabulary_size(meta, model),
        n_cls_out=len(labels) if isinstance(labels, tuple) and labels else 1,
        n_ctx_train=meta.count("context_length"),
    )


def _deepstack_layers(meta: Metadata) -> int:
    """Layers that receive their own input features: as many as `deepstack_mapping` names, or as stated."""
    mapping = meta.array("deepstack_mapping", lowest=-1)
    if mapping is not None:
        return len({entry for entry in mapping if entry >= 0})
    return meta.count("n_deepstack_layers", 0)


def _vocabulary_size(meta: Metadata, model: Model) -> int:
    """Rows of the logits: the tokens listed, else those of the output matrix or the token embedding.

    Source: llama_vocab::n_tokens as the lm head uses it, src/models/*.cpp (llama.cpp in llama-cpp-python 0.3.36);
    headers stored without their tokenizer keep the matrices.
    """
    tokens = model.metadata.get("tokenizer.ggml.tokens")
    if isinstance(tokens, LongArray):
        return tokens.count
    if isinstance(tokens, tuple):
        return len(tokens)
    for name in ("output.weight", "token_embd.weight"):
        tensor = model.tensor_by_name.get(name)
        if tensor is not None and len(tensor.shape) > 1:
            return tensor.shape[1]
    return meta.count("vocab_size", 0)


def pooling_type(meta: Metadata) -> int:
    """How token embeddings are pooled: 0 none, 1 mean, 2 first, 3 last, 4 rank; unspecified (-1) means none.

    Source: enum llama_pooling_type, include/llama.h; src/llama-context.cpp:221-227 (llama.cpp in llama-cpp-python
    0.3.36).
    """
    stated = meta.count("pooling_type", 0)
    return 0 if stated == UNSPECIFIED else stated


def positions_per_token(meta: Metadata, arch: Architecture) -> int:
    """Position ids per token: four with multi-axis rotation, else one.

    Source: llama_model_rope_type, src/llama-model.cpp:3020-3211; use_mrope, src/llama-hparams.cpp:345-347
    (llama.cpp in llama-cpp-python 0.3.36).
    """
    if arch.multi_axis_rope == "with_sections":
        sections = meta.array("rope.dimension_sections", lowest=-1) or (0, 0)
        return 4 if len(sections) > 1 and sections[0] > 0 and sections[1] > 0 else 1
    return 4 if arch.multi_axis_rope == "always" else 1


def soft_cap(meta: Metadata, suffix: str, default: float) -> float:
    """A soft cap of the architectures that apply one; 0 for the others, whatever the file says."""
    return meta.number(suffix, default) if default else 0.0


def runs_alone(arch: Architecture, model: Model) -> bool:
    """Whether a file is a model of its own, not a draft that borrows its target's cache or embeddings.

    Source: ctx_other in src/llama-context.cpp:148-166 (llama.cpp in llama-cpp-python 0.3.36).
    """
    if arch.needs_target == "without_embeddings":
        tied = arch.ties_embeddings != "never"
        return "token_embd.weight" in model.tensor_by_name and (tied or "output.weight" in model.tensor_by_name)
    return arch.needs_target == "no"
