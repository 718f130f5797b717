"""Which layer slots ask for each tensor of a file: the input layer, a block, the output layer, or none."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from service.core.architectures.hparams import Hparams
from service.core.engines.llamacpp.tensor_kinds import TensorKind, WeightOp, tensor_kind
from service.core.problems import Unsupported
from service.core.types import Model, Tensor

INPUT: Final = -1
"""Slot of the input layer, which always stays on the host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedTensor:
    """A tensor that one slot asks for."""

    tensor: Tensor
    kind: TensorKind
    op: WeightOp
    slot: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedTensor:
    """A tensor that several slots ask for: one copy in each buffer type that holds one of them.

    slots: ascending, INPUT first; op: what slots other than INPUT do with it.
    copied_within_host: the architecture asks for the output copy before the input one, and the loader does not
    notice that both lie in the same buffer: two copies.
    """

    tensor: Tensor
    op: WeightOp
    slots: tuple[int, ...]
    copied_within_buffer: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Buckets:
    """Tensors of a file by the slots that ask for them; `unused` is in the file and never loaded."""

    loaded: tuple[LoadedTensor, ...]
    shared: tuple[SharedTensor, ...]
    unused: tuple[Tensor, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftBlocks:
    """How an architecture treats its trailing draft (MTP, NextN) blocks.

    loaded_anyway: bases that are loaded although no draft was asked for.
    runs: False where llama.cpp keeps the tensors in files but has no draft graph, so they are never loaded.
    """

    loaded_anyway: frozenset[str] = frozenset()
    runs: bool = True


_HEAD_AND_EMBEDDING = ("nextn.embed_tokens", "nextn.shared_head_head", "nextn.shared_head_norm")
_FEED_FORWARD = (
    *("ffn_gate", "ffn_down", "ffn_up", "ffn_gate_inp", "exp_probs_b", "ffn_down_exps", "ffn_gate_exps", "ffn_up_exps"),
    *("ffn_gate_up_exps", "ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp"),
)
_ATTENTION_EXTRAS = ("attn_q_norm", "attn_k_norm", "attn_gate")

_DRAFT_BLOCKS: Final[Mapping[str, DraftBlocks]] = MappingProxyType(
    {
        "bailingmoe2": DraftBlocks(runs=False),
        "bailingmoe3": DraftBlocks(),
        "cohere2moe": DraftBlocks(loaded_anyway=frozenset(_HEAD_AND_EMBEDDING)),
        "deepseek2": DraftBlocks(),
        "deepseek32": DraftBlocks(loaded_anyway=frozenset({"exp_probs_b"})),
        "deepseek4": DraftBlocks(),
        "dots3note": DraftBlocks(runs=False),
        "exaone-moe": DraftBlocks(runs=False),
        "exaone4": DraftBlocks(runs=False),
        "glm-dsa": DraftBlocks(loaded_anyway=frozenset({"exp_probs_b"})),
        "glm4": DraftBlocks(runs=False),
        "glm4moe": DraftBlocks(),
        "glm5-next": DraftBlocks(),
        "hy_v3": DraftBlocks(loaded_anyway=frozenset((*_HEAD_AND_EMBEDDING, *_FEED_FORWARD))),
        "mimo2": DraftBlocks(),
        "mistral4": DraftBlocks(),
        "nemotron_h": DraftBlocks(),
        "nemotron_h_moe": DraftBlocks(),
        "qwen35": DraftBlocks(),
        "qwen35moe": DraftBlocks(),
        "qwen3next": DraftBlocks(),
        "step35": DraftBlocks(loaded_anyway=frozenset((*_HEAD_AND_EMBEDDING, *_FEED_FORWARD, *_ATTENTION_EXTRAS))),
    }
)
"""Architectures that leave draft blocks out; those without a row load whatever blocks a file has.

Source: TENSOR_SKIP in src/models/*.cpp, and the create_tensor calls there that lack the flag
(llama.cpp in llama-cpp-python 0.3.36).
"""

_OUTPUT_FIRST: Final = frozenset({"codeshell", "gemma3n", "gemma4"})
"""Architectures whose loader creates the tied copy before the original (src/models/gemma4.cpp:50-56 and likewise)."""

_ROPE_LAYERS: Final[Mapping[str, str]] = MappingProxyType(
    {"gemma4": "full attention", "gemma4-assistant": "full attention", "step35": "all"}
)
"""Layers that ask for the rope factors where not every trunk layer does (src/models/gemma4.cpp:94, step35.cpp:134)."""

_OPS: Final[Mapping[tuple[str, str], WeightOp]] = MappingProxyType({("glm5-next", "indexer_compressor_ape"): "add"})
"""Operations that differ from the table of names in one architecture (LLM_TENSOR_INDEXER_KPOOL_APE)."""

_OUTPUT_NORM_NAMES: Final = frozenset({("lfm2", "token_embd_norm"), ("lfm2moe", "token_embd_norm")})
"""Architectures that call their output norm by another tensor's name (LLM_TENSOR_OUTPUT_NORM_LFM2)."""


def rope_slots(hp: Hparams) -> tuple[int, ...]:
    """Blocks that ask for the rope factor tensors."""
    layers = _ROPE_LAYERS.get(hp.arch.name)
    if layers == "all":
        return tuple(range(hp.n_layer_all))
    if layers == "full attention":
        return tuple(il for il in range(hp.n_layer_all) if not hp.is_swa[il])
    return tuple(range(hp.n_layer // hp.n_loops))


def _unknown(model: Model, tensor: Tensor) -> Unsupported:
    return Unsupported(
        f"tensor {tensor.name!r} has no place in a {model.architecture!r} model: llama.cpp would refuse the file "
        "(wrong number of tensors); convert the model again with a current converter",
        fields=("model",),
    )


def _weight_op(kind: TensorKind, hp: Hparams) -> WeightOp:
    if kind.base == "ssm_a" and hp.arch.state is not None and hp.arch.state.family in ("mamba1", "mamba2"):
        return "ssm_scan"
    return _OPS.get((hp.arch.name, kind.base), kind.op)


def _slot(model: Model, tensor: Tensor, kind: TensorKind, hp: Hparams) -> int:
    """Slot of an unshared tensor; block tensors without a number belong to block 0."""
    if (hp.arch.name, kind.base) in _OUTPUT_NORM_NAMES:
        return hp.n_layer_all
    if kind.layer == "repeating":
        slot = kind.block or 0
        if slot >= hp.n_layer_all:
            raise _unknown(model, tensor)
        return slot
    return INPUT if kind.layer == "input" else hp.n_layer_all


def _is_left_out(kind: TensorKind, hp: Hparams, *, load_mtp: bool) -> bool:
    if kind.op == "none":
        return True
    blocks = _DRAFT_BLOCKS.get(hp.arch.name)
    if blocks is None or kind.block is None or kind.block < hp.n_layer:
        return False
    return not (load_mtp and blocks.runs) and kind.base not in blocks.loaded_anyway


def _shared(tensor: Tensor, kind: TensorKind, model: Model, hp: Hparams) -> SharedTensor | None:
    """The tensor as shared where several slots ask for it: tied embeddings and rope factors."""
    output = hp.n_layer_all
    first = hp.arch.name in _OUTPUT_FIRST
    if kind.op == "rope":
        return SharedTensor(tensor=tensor, op="rope", slots=rope_slots(hp))
    names = model.tensor_by_name
    if tensor.name == "token_embd.weight" and "output.weight" not in names and hp.arch.ties_embeddings != "never":
        return SharedTensor(tensor=tensor, op="mul_mat", slots=(INPUT, output), copied_within_buffer=first)
    if tensor.name == "output.weight" and "token_embd.weight" not in names and hp.arch.token_embd_may_be_output:
        return SharedTensor(tensor=tensor, op="mul_mat", slots=(output, output), copied_within_buffer=first)
    return None


@lru_cache(maxsize=256)
def buckets(model: Model, hp: Hparams, *, load_mtp: bool = False) -> Buckets:
    """Slots that ask for each tensor of `model`; `load_mtp` where its draft blocks will be used.

    Raises Unsupported for a tensor that llama.cpp has no use for, because it would refuse the file.
    Source: src/llama-model-loader.cpp:1116-1390 and src/models/*.cpp (llama.cpp in llama-cpp-python 0.3.36).
    """
    loaded: list[LoadedTensor] = []
    shared: list[SharedTensor] = []
    unused: list[Tensor] = []
    for tensor in model.tensors:
        kind = tensor_kind(tensor.name)
        if kind is None:
            raise _unknown(model, tensor)
        slot = _slot(model, tensor, kind, hp)
        if _is_left_out(kind, hp, load_mtp=load_mtp):
            unused.append(tensor)
        elif (several := _shared(tensor, kind, model, hp)) is not None:
            shared.append(several)
        else:
            loaded.append(LoadedTensor(tensor=tensor, kind=kind, op=_weight_op(kind, hp), slot=slot))
    return Buckets(loaded=tuple(loaded), shared=tuple(shared), unused=tuple(unused))
