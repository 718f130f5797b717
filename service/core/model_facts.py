"""What a model is, in the few numbers people know it by."""

import re
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from service.core.architectures.hparams import Hparams, read_hparams
from service.core.types import Model, Tensor

# Source: LLM_FFN_EXPS_REGEX, common/common.h:1199 (llama.cpp in llama-cpp-python 0.3.36), with its block number
_ROUTED_EXPERTS = re.compile(r"blk\.(\d+)\.ffn_(?:up|down|gate|gate_up)_(?:ch|)exps")
_BLOCK = re.compile(r"blk\.(\d+)\.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """Sizes of a model.

    parameters: elements of every tensor of the file. active_parameters: those a token passes, that is without
    the experts it is not routed to and without draft (MTP) layers, which only speculation runs.
    """

    parameters: int
    active_parameters: int
    tensor_data_bytes: int
    trained_context_tokens: int


@lru_cache(maxsize=256)
def model_facts(model: Model) -> ModelFacts:
    """Sizes of `model`, memoised per model object.

    Raises `Unsupported` for an architecture that is unknown and `UnreadableModel` for metadata that makes no sense.
    """
    hparams = read_hparams(model)
    return ModelFacts(
        parameters=sum(prod(tensor.shape) for tensor in model.tensors),
        active_parameters=sum(active_elements(tensor, hparams) for tensor in model.tensors),
        tensor_data_bytes=sum(tensor.size_bytes for tensor in model.tensors),
        trained_context_tokens=hparams.n_ctx_train,
    )


def active_elements(tensor: Tensor, hparams: Hparams) -> int:
    """Elements of `tensor` that one token passes; a stack of experts counts by the share it is routed to."""
    elements = prod(tensor.shape)
    block = _BLOCK.match(tensor.name)
    if block is None:
        return elements
    il = int(block[1])
    if il >= hparams.n_layer:
        return 0
    if _ROUTED_EXPERTS.match(tensor.name) is None:
        return elements
    return elements * hparams.n_expert_used[il] // tensor.shape[-1]
