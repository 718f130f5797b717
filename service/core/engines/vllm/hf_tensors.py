"""Tensors of a Hugging Face checkpoint as vLLM's parameters, with the bytes that their files have.

Source: load_weights and packed_modules_mapping of model_executor/models (llama.py, qwen2_moe.py, qwen3_next.py,
mixtral.py, deepseek_v2.py, gpt_oss.py, nemotron_h.py, qwen3_vl.py), vLLM 0.33.0.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from types import MappingProxyType

from service.core.checkpoints import SAFETENSORS_BITS, CheckpointTensor
from service.core.engines.vllm.model import Matrix
from service.core.engines.vllm.parameters import Parameter
from service.core.problems import Unsupported

_LAYER = re.compile(r"(?:^|\.)layers\.(\d+)\.(.+)")
_EXPERT = re.compile(r"experts\.\d+\.")
_VISION = re.compile(r"(^|\.)(visual|vision_tower|vision_model|multi_modal_projector|mm_projector|audio_tower)\.")
_DRAFT = re.compile(r"(^|\.)(mtp|nextn|eagle|draft)\b")
# endings of a module's tensors: the weights themselves, and what a quantisation keeps beside them
_ENDING = re.compile(
    r"\.(weight|bias|qweight|qzeros|scales|g_idx|weight_packed|weight_scale|weight_scale_inv|weight_scale_2|"
    r"weight_zero_point|weight_shape|weight_g_idx|weight_global_scale|input_scale|input_global_scale|k_scale|v_scale)$"
)
_BLOCKS = re.compile(r"_(blocks|scales|bias)$")
_SMALL = re.compile(r"norm|sinks?$|e_score_correction_bias|rotary|inv_freq|layer_scalar|scale$|A_log|dt_bias|\.D$|\bD$")
# stored with inputs first
_TRANSPOSED = frozenset({"qweight", "qzeros", "scales"})

_Q, _KV = Parameter("qkv", "attention", "column"), Parameter("qkv", "attention", "kv_heads")
_LATENT = Parameter("qkv_a", "attention", "replicated")
MODULES: Mapping[str, Parameter] = MappingProxyType(
    {
        "q_proj": _Q,
        "k_proj": _KV,
        "v_proj": _KV,
        "qkv_proj": _Q,
        "o_proj": Parameter("o", "attention", "row"),
        "q_a_proj": _LATENT,
        "kv_a_proj_with_mqa": _LATENT,
        "q_b_proj": Parameter("q_b", "attention", "column"),
        "kv_b_proj": Parameter("kv_b", "attention", "column"),
        "gate_proj": Parameter("gate_up", "feed_forward", "column"),
        "up_proj": Parameter("gate_up", "feed_forward", "column"),
        "gate_up_proj": Parameter("gate_up", "feed_forward", "column"),
        "down_proj": Parameter("down", "feed_forward", "row"),
        "w1": Parameter("gate_up", "feed_forward", "column"),
        "w3": Parameter("gate_up", "feed_forward", "column"),
        "w2": Parameter("down", "feed_forward", "row"),
        "gate": Parameter("router", "router", "replicated"),
        "router": Parameter("router", "router", "replicated"),
        "shared_expert_gate": Parameter("router", "router", "replicated"),
        "in_proj_qkvz": Parameter("in_proj_qkvz", "state", "column"),
        "in_proj_qkv": Parameter("in_proj_qkvz", "state", "column"),
        "in_proj_z": Parameter("in_proj_qkvz", "state", "column"),
        "in_proj_ba": Parameter("in_proj_ba", "state_gates", "column"),
        "in_proj_b": Parameter("in_proj_ba", "state_gates", "column"),
        "in_proj_a": Parameter("in_proj_ba", "state_gates", "column"),
        "in_proj": Parameter("in_proj", "state", "column"),
        "out_proj": Parameter("out_proj", "state", "row"),
        "conv1d": Parameter("conv1d", "state_gates", "column"),
        "wq_b": Parameter("indexer", "attention", "replicated"),
        "wk": Parameter("indexer", "attention", "replicated"),
        "weights_proj": Parameter("indexer", "attention", "replicated"),
        "embed_tokens": Parameter("embed", "embedding", "vocabulary"),
        "embeddings": Parameter("embed", "embedding", "vocabulary"),
        "lm_head": Parameter("lm_head", "output", "vocabulary"),
    }
)
"""Modules by the last part of their names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """Parameters of every layer, of the first and of the last stage, as a checkpoint has them."""

    layers: tuple[tuple[Matrix, ...], ...]
    first: tuple[Matrix, ...]
    last: tuple[Matrix, ...]


def placed(tensors: Sequence[CheckpointTensor], layers: int, kv_heads: int) -> Placed:
    """Sort tensors into layers; draft layers are left out, as they are loaded for speculation alone.

    Raises Unsupported for a tensor that no rule names.
    """
    by_layer: list[dict[str, Matrix]] = [{} for _ in range(layers)]
    first: dict[str, Matrix] = {}
    last: dict[str, Matrix] = {}
    for tensor in tensors:
        if _DRAFT.search(tensor.name):
            continue
        found = _LAYER.search(tensor.name)
        if _VISION.search(tensor.name):
            _add(first, tensor.name, _vision(tensor))
        elif found is None:
            matrix = _matrix(tensor, tensor.name, kv_heads)
            _add(last if matrix.role in ("output", "norm") else first, tensor.name, matrix)
        elif int(found[1]) < layers:
            _add(by_layer[int(found[1])], _EXPERT.sub("experts.", found[2]), _matrix(tensor, found[2], kv_heads))
    return Placed(
        layers=tuple(tuple(each.values()) for each in by_layer),
        first=tuple(first.values()),
        last=tuple(last.values()),
    )


def _add(into: dict[str, Matrix], name: str, matrix: Matrix) -> None:
    """Experts of one kind are one matrix, as often as there are of them."""
    known = into.get(name)
    into[name] = matrix if known is None else replace(known, copies=known.copies + matrix.copies)


def _matrix(tensor: CheckpointTensor, name: str, kv_heads: int) -> Matrix:
    parameter = _parameter(tensor.name, name)
    shape = tensor.shape or (1,)
    copies = 1
    if "experts" in name and "shared" not in name and not _EXPERT.search(name) and len(shape) > 2:
        copies, shape = shape[0], shape[1:]
    rows, columns = shape[0], prod(shape[1:])
    ending = _ENDING.search(name)
    if ending and ending[1] in _TRANSPOSED and len(shape) == 2:
        rows, columns = columns, rows
    is_vector = columns == 1 or len(shape) == 1
    is_routed = bool(re.search(r"experts\.|experts_", name)) and "shared" not in name
    return Matrix(
        fused=_expert_name(parameter.fused) if is_routed else parameter.fused,
        role="experts" if is_routed else parameter.role,
        division="replicated" if is_vector and parameter.division in ("row", "vocabulary") else parameter.division,
        rows=rows,
        columns=columns,
        copies=copies,
        parts=kv_heads if parameter.division == "kv_heads" else 0,
        element_bytes=max(1, SAFETENSORS_BITS[tensor.dtype] // 8),
    )


def _expert_name(fused: str) -> str:
    return {"gate_up": "w13", "down": "w2"}.get(fused, fused)


def _parameter(whole: str, name: str) -> Parameter:
    module = _BLOCKS.sub("", _ENDING.sub("", name)).rpartition(".")[2]
    found = MODULES.get(module)
    if found is not None:
        return found
    if _SMALL.search(_ENDING.sub("", name)):
        return Parameter("norm", "norm", "replicated")
    raise Unsupported(f"Where vLLM keeps the tensor {whole[:80]!r} is not described here.", fields=("model",))


def _vision(tensor: CheckpointTensor) -> Matrix:
    """Matrices of an encoder's blocks are divided, everything else of it is not."""
    shape = tensor.shape or (1,)
    divided = len(shape) == 2 and re.search(r"(blocks|layers)\.\d+\.", tensor.name) is not None
    return Matrix(
        fused=tensor.name,
        role="vision",
        division="column" if divided else "replicated",
        rows=shape[0],
        columns=prod(shape[1:]),
        element_bytes=max(1, SAFETENSORS_BITS[tensor.dtype] // 8),
    )


def elements(matrices: Iterable[Matrix], packed_bits: int) -> int:
    """Weights that matrices hold; a format with fewer than eight bits packs several into one element."""
    total = 0
    for matrix in matrices:
        size = matrix.elements * (matrix.element_bytes or 2)
        quantised = matrix.element_bytes in (1, 4) and matrix.columns > 1 and packed_bits < 16
        total += size * 8 // packed_bits if quantised else matrix.elements
    return total
