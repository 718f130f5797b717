"""Types of the KV cache and the bytes they keep per head and token."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from service.core.problems import InvalidRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheType:
    """One type of cache.

    element_bits: of a key or value element. group_elements: elements that share one scale byte (0: none).
    head_scale_bytes: scale per head and token, of keys and of values each. latent_bytes: of one token's whole latent
    where the type lays it out by itself, for a latent of 512 + 64 elements.
    least_capability: compute capability from which on an attention backend reads it.
    """

    element_bits: int
    group_elements: int = 0
    head_scale_bytes: int = 0
    latent_bytes: int = 0
    least_capability: tuple[int, int] = (6, 0)

    def head_bytes(self, head_size: int) -> int:
        """Bytes of one token's keys, or values, of one head."""
        scales = -(-head_size // self.group_elements) if self.group_elements else 0
        return head_size * self.element_bits // 8 + scales + self.head_scale_bytes


_FP8 = CacheType(element_bits=8, least_capability=(7, 5))
CACHE_TYPES: Mapping[str, CacheType] = MappingProxyType(
    {
        "bfloat16": CacheType(element_bits=16, least_capability=(8, 0)),
        "float16": CacheType(element_bits=16),
        "fp8": _FP8,
        "fp8_e4m3": _FP8,
        "fp8_e5m2": _FP8,
        "fp8_ds_mla": CacheType(element_bits=8, latent_bytes=656, least_capability=(9, 0)),
        "nvfp4": CacheType(element_bits=4, group_elements=16, least_capability=(10, 0)),
        "nvfp4_ds_mla": CacheType(element_bits=4, latent_bytes=352, least_capability=(10, 0)),
        "int8_per_token_head": CacheType(element_bits=8, head_scale_bytes=4, least_capability=(7, 5)),
        "fp8_per_token_head": CacheType(element_bits=8, head_scale_bytes=4, least_capability=(7, 5)),
        "int4_per_token_head": CacheType(element_bits=4, head_scale_bytes=4, least_capability=(7, 5)),
    }
)
"""Source: CacheDType, config/cache.py:44-67, and the page sizes of v1/kv_cache_interface.py:552-617 (vLLM 0.33.0)."""


def cache_type(name: str) -> CacheType:
    """The type of a name; raises InvalidRequest for one without a row here."""
    found = CACHE_TYPES.get(name)
    if found is None:
        raise InvalidRequest(
            f"{name!r} is no type of a KV cache that is described here: {', '.join(CACHE_TYPES)} or auto.",
            suggestions=list(CACHE_TYPES),
            fields=("engine.kv_cache_dtype",),
        )
    return found
