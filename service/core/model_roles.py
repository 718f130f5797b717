"""What the bytes of a file are for, and of which types they are."""

import re
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, Literal, TypeAlias

from service.core.architectures.hparams import read_hparams
from service.core.problems import PlanProblem
from service.core.types import Model, Tensor

TensorRole: TypeAlias = Literal[
    "adapter", "attention", "audio", "draft", "embedding", "feed_forward", "norm", "other", "output", "projector",
    "recurrent", "routed_experts", "router", "shared_experts", "vision",
]  # fmt: skip

_BLOCK: Final = re.compile(r"(?:(?:dec|enc)\.)?blk\.(\d{1,4})\.")

# the first row whose expression is found in a name without its block decides
_ROLES: Final[tuple[tuple[TensorRole, str], ...]] = (
    ("adapter", r"\.lora_[ab]$"),
    ("vision", r"^v\."),
    ("audio", r"^a\."),
    ("projector", r"^(?:mm|resampler)\."),
    ("norm", r"norm"),
    ("routed_experts", r"_(?:ch)?exps\b"),
    ("shared_experts", r"_shexp\b"),
    ("router", r"^(?:ffn_gate_inp|exp_probs_b|ffn_gate_tid2eid)"),
    ("feed_forward", r"^ffn"),
    ("attention", r"^(?:attn|indexer|cross_attn)"),
    ("recurrent", r"^(?:ssm|time_mix|channel_mix|shortconv)"),
    ("embedding", r"^(?:token_embd|position_embd|token_types|per_layer_(?:token_embd|model_proj))"),
    ("output", r"^(?:output|cls)\b"),
)
"""Source: LLM_TENSOR_NAMES, src/llama-arch.cpp:420-780, and tools/mtmd/clip-impl.h (llama.cpp in llama-cpp-python
0.3.36)."""


def bytes_by_role(model: Model) -> Mapping[TensorRole, int]:
    """Bytes of the tensors of each role, the most first; together all bytes of the file's tensors."""
    draft_from = _first_draft_block(model)
    found: Counter[TensorRole] = Counter()
    for tensor in model.tensors:
        found[_role_of(tensor, draft_from)] += tensor.size_bytes
    return dict(found.most_common())


def bytes_by_type(model: Model) -> Mapping[str, int]:
    """Bytes of the tensors of each ggml type, the most first."""
    found: Counter[str] = Counter()
    for tensor in model.tensors:
        found[tensor.type.name] += tensor.size_bytes
    return dict(found.most_common())


def _role_of(tensor: Tensor, draft_from: int | None) -> TensorRole:
    block = _BLOCK.match(tensor.name)
    if block is not None and draft_from is not None and int(block[1]) >= draft_from:
        return "draft"
    return _role_of_name(tensor.name[block.end() :] if block else tensor.name)


@lru_cache(maxsize=1024)
def _role_of_name(name: str) -> TensorRole:
    return next((role for role, expression in _ROLES if re.search(expression, name)), "other")


def _first_draft_block(model: Model) -> int | None:
    """Index of the first draft (MTP) block; None for what llama.cpp does not load as a model."""
    try:
        return read_hparams(model).n_layer
    except PlanProblem:
        return None
