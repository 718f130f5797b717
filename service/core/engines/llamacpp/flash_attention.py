"""Whether a context uses flash attention."""

from dataclasses import dataclass
from typing import Final

from service.core.architectures.hparams import Hparams
from service.core.engines.llamacpp.cache_types import CacheTypes, is_quantised
from service.core.engines.llamacpp.settings import LlamaCppSettings
from service.core.engines.llamacpp.versions import VersionRules
from service.core.problems import Contradiction
from service.core.types import Backend

KERNEL_BACKENDS: Final = frozenset[Backend](("cuda", "rocm"))
"""Backends whose kernels exist for certain head sizes only."""

EQUAL_HEAD_SIZES: Final = frozenset((40, 64, 72, 80, 96, 112, 128, 256))
"""Head sizes with a kernel for equal K and V, whatever the heads."""

GROUPED_HEAD_SIZES: Final = {(192, 128): 8, (320, 256): 32, (512, 512): 2, (576, 512): 2}
"""Head sizes of K and V with a kernel only for grouped queries: the group is 2 at least, and a multiple of this."""

KERNEL_TYPES: Final = frozenset(("f32", "f16", "bf16", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0"))
"""Cache types the kernels read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlashAttention:
    """enabled: the graph uses it. v_padded: it was off when the cache was made, so V is transposed and padded."""

    enabled: bool
    v_padded: bool


def resolve_flash_attention(
    hp: Hparams,
    settings: LlamaCppSettings,
    types: CacheTypes,
    rules: VersionRules,
    backends: tuple[Backend, ...] = (),
) -> FlashAttention:
    """Flash attention as asked, or as llama.cpp decides where nothing was.

    On `auto` it is on unless the kernels of a backend that holds layers lack this model's head size or cache type; the
    cache is made as if it were on either way. A quantised V switches `auto` on. Before `auto` existed it was off unless
    asked for. Raises `Contradiction` for tensor split with flash attention off.

    Source: src/llama-context.cpp:230-231, 507-560, 3816-3849 (llama.cpp in llama-cpp-python 0.3.36).
    """
    asked = settings.flash_attn
    if asked is None and not rules.has("flash_attn_auto"):
        asked = False
    if not hp.arch.flash_attention:
        asked = False
    if settings.split_mode == "tensor":
        if asked is False:
            raise Contradiction(
                "split mode tensor needs flash attention: leave flash_attn open or switch it on, or split by layer",
                fields=("engine.split_mode", "engine.flash_attn"),
            )
        asked = True
    if asked is not None:
        return FlashAttention(enabled=asked, v_padded=not asked)
    if is_quantised(types.v):
        return FlashAttention(enabled=True, v_padded=False)
    enabled = not any(backend in KERNEL_BACKENDS for backend in backends) or has_kernels(hp, types)
    return FlashAttention(enabled=enabled, v_padded=False)


def has_kernels(hp: Hparams, types: CacheTypes) -> bool:
    """Whether CUDA (and HIP) have a flash attention kernel for every attending layer of a model.

    Source: ggml_cuda_get_best_fattn_kernel, ggml/src/ggml-cuda/fattn.cu:541-635 (ggml 0.25.3).
    """
    return {types.k.name, types.v.name} <= KERNEL_TYPES and all(
        _has_kernel(hp, il)
        for il in range(hp.n_layer)
        if hp.n_head[il] and hp.n_head_kv[il] and hp.n_embd_head_k(il) and not hp.is_recr[il]
    )


def _has_kernel(hp: Hparams, il: int) -> bool:
    k, v = hp.n_embd_head_k(il), hp.n_embd_head_v(il)
    if k == v and k in EQUAL_HEAD_SIZES:
        return True
    group = hp.n_head[il] // hp.n_head_kv[il]
    multiple = GROUPED_HEAD_SIZES.get((k, v))
    if multiple is None:
        return False
    return group >= 2 if multiple == 2 else group % multiple == 0
