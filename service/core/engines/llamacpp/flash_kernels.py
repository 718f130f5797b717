"""For which heads and cache types each backend has flash attention kernels, one table row a backend."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from service.core.architectures.hparams import Hparams
from service.core.engines.llamacpp.cache_types import CacheTypes
from service.core.types import Backend

_COMMON_TYPES = frozenset(("f32", "f16", "bf16", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0"))


@dataclass(frozen=True, slots=True, kw_only=True)
class FlashKernels:
    """Kernels of one backend.

    equal_head_sizes: head sizes that K and V may both have. grouped_head_sizes: sizes of K and V that need grouped
    queries, at least 2 to a KV head, and what the group must be a multiple of. key_head_sizes: head sizes of K with a V
    no larger. head_size_multiple: any sizes that are multiples of it. types: cache types; same_type: K and V alike;
    bf16_alone: bf16 only for both.
    """

    types: frozenset[str] = _COMMON_TYPES
    equal_head_sizes: frozenset[int] = frozenset()
    grouped_head_sizes: Mapping[tuple[int, int], int] = field(default_factory=dict)
    key_head_sizes: frozenset[int] = frozenset()
    head_size_multiple: int | None = None
    same_type: bool = False
    bf16_alone: bool = False

    def take_types(self, types: CacheTypes) -> bool:
        """Whether the kernels read these cache types."""
        names = {types.k.name, types.v.name}
        alike = len(names) == 1
        return names <= self.types and (alike or not (self.same_type or (self.bf16_alone and "bf16" in names)))

    def take_heads(self, k: int, v: int, queries_per_kv_head: int) -> bool:
        """Whether the kernels compute heads of these sizes."""
        if self.head_size_multiple is not None:
            return k % self.head_size_multiple == 0 and v % self.head_size_multiple == 0
        if k == v and k in self.equal_head_sizes:
            return True
        if k in self.key_head_sizes and v <= k:
            return True
        multiple = self.grouped_head_sizes.get((k, v))
        return multiple is not None and queries_per_kv_head >= 2 and queries_per_kv_head % multiple == 0


_CUDA = FlashKernels(
    equal_head_sizes=frozenset((40, 64, 72, 80, 96, 112, 128, 256)),
    grouped_head_sizes=MappingProxyType({(192, 128): 8, (320, 256): 32, (512, 512): 1, (576, 512): 1}),
)

FLASH_KERNELS: Final[Mapping[Backend, FlashKernels]] = MappingProxyType(
    {
        "cuda": _CUDA,
        "rocm": _CUDA,
        "metal": FlashKernels(
            equal_head_sizes=frozenset((72,)),
            key_head_sizes=frozenset((32, 40, 48, 64, 80, 96, 112, 128, 192, 256, 320, 512, 576)),
            same_type=True,
        ),
        "sycl": FlashKernels(
            types=frozenset(("f32", "f16", "bf16", "q4_0", "q8_0")),
            equal_head_sizes=frozenset((40, 64, 72, 80, 96, 112, 128, 256, 512)),
            grouped_head_sizes=MappingProxyType({(576, 512): 1}),
            same_type=True,
        ),
        "vulkan": FlashKernels(types=_COMMON_TYPES | {"iq4_nl"}, head_size_multiple=8, bf16_alone=True),
    }
)
"""Backends that are not listed compute flash attention for everything.

Source, all of ggml 0.25.3: ggml_cuda_get_best_fattn_kernel, ggml-cuda/fattn.cu:525-635; ggml-metal/ggml-metal-device.m:
1727-1771; ggml_sycl_get_best_fattn_kernel, ggml-sycl/fattn.cpp:106-240; ggml-vulkan/ggml-vulkan.cpp:15451-15498.
"""


@lru_cache(maxsize=1024)
def has_kernels(hp: Hparams, types: CacheTypes, backend: Backend) -> bool:
    """Whether a backend has a flash attention kernel for every attending layer of a model; memoised."""
    kernels = FLASH_KERNELS.get(backend)
    if kernels is None:
        return True
    hybrid_layers = hp.arch.state is not None and hp.arch.state.keeps_attention
    return kernels.take_types(types) and all(
        kernels.take_heads(hp.n_embd_head_k(il), hp.n_embd_head_v(il), hp.n_head[il] // hp.n_head_kv[il])
        for il in range(hp.n_layer)
        if hp.n_head[il] and hp.n_head_kv[il] and hp.n_embd_head_k(il) and (hybrid_layers or not hp.is_recr[il])
    )
