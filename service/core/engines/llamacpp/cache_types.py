"""Element types of the KV cache and what they must fit."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from service.core.architectures.hparams import Hparams
from service.core.engines.llamacpp.settings import LlamaCppSettings
from service.core.problems import Contradiction, InvalidRequest, Unsupported
from service.core.tensor_types import TENSOR_TYPE_BY_NAME
from service.core.types import TensorType

CACHE_TYPE_NAMES: Final = ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1")
"""Source: kv_cache_types, common/arg.cpp:304-314 (llama.cpp in llama-cpp-python 0.3.36)."""

DEFAULT_CACHE_TYPE: Final = "f16"


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheTypes:
    """Types of K and V."""

    k: TensorType
    v: TensorType


def is_quantised(tensor_type: TensorType) -> bool:
    """Whether values are stored in blocks."""
    return tensor_type.block_elements > 1


def resolve_cache_types(settings: LlamaCppSettings) -> CacheTypes:
    """Types as asked, f16 where nothing was."""
    return CacheTypes(
        k=_cache_type(settings.cache_type_k, "engine.cache_type_k"),
        v=_cache_type(settings.cache_type_v, "engine.cache_type_v"),
    )


def _cache_type(name: str | None, field: str) -> TensorType:
    name = DEFAULT_CACHE_TYPE if name is None else name
    if name not in CACHE_TYPE_NAMES:
        raise InvalidRequest(
            f"cache type {name!r} is none of {', '.join(CACHE_TYPE_NAMES)}",
            suggestions=CACHE_TYPE_NAMES,
            fields=(field,),
        )
    return TENSOR_TYPE_BY_NAME[name]


def check_cache_types(hp: Hparams, types: CacheTypes, *, flash_attn: bool) -> None:
    """Refuse the types that llama.cpp refuses for this model.

    flash_attn: whether it was not switched off. Raises `Contradiction` for a quantised V without flash attention,
    `Unsupported` for different types where one latent is cached and for head sizes the blocks do not divide.

    Source: llama_init_from_model, src/llama-context.cpp:3835-3871 (llama.cpp in llama-cpp-python 0.3.36).
    """
    if (hp.is_mla or hp.arch.memory == "compressed") and types.k != types.v:
        raise Unsupported(
            f"{hp.arch.name} caches one latent for K and V and takes no different types ({types.k.name} and "
            f"{types.v.name}): give cache_type_k and cache_type_v the same value",
            fields=("engine.cache_type_k", "engine.cache_type_v"),
        )
    if is_quantised(types.v) and not flash_attn:
        raise Contradiction(
            f"a quantised V cache ({types.v.name}) needs flash attention, which is off"
            + ("" if hp.arch.flash_attention else f" for {hp.arch.name}")
            + ": switch flash_attn on or use cache_type_v f16",
            fields=("engine.cache_type_v", "engine.flash_attn"),
        )
    keys, values = _row_lengths(hp, flash_attn=flash_attn)
    for elements in keys if is_quantised(types.k) else ():
        _check_blocks(types.k, "k", elements)
    for elements in values if is_quantised(types.v) else ():
        _check_blocks(types.v, "v", elements)


@lru_cache(maxsize=512)
def _row_lengths(hp: Hparams, *, flash_attn: bool) -> tuple[frozenset[int], frozenset[int]]:
    """What blocks of K and V must divide: a head with flash attention, else the row that is stored."""
    trunk = range(hp.n_layer)
    if flash_attn:
        return frozenset(map(hp.n_embd_head_k, trunk)), frozenset(map(hp.n_embd_head_v, trunk))
    return frozenset(map(hp.n_embd_k_gqa, trunk)), frozenset()


def _check_blocks(tensor_type: TensorType, letter: str, elements: int) -> None:
    if elements % tensor_type.block_elements:
        raise Unsupported(
            f"cache type {tensor_type.name} stores blocks of {tensor_type.block_elements} values, which do not divide "
            f"this model's {elements}: use f16, bf16 or f32 as cache_type_{letter}",
            fields=(f"engine.cache_type_{letter}",),
        )
