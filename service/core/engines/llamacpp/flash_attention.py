"""Whether a context uses flash attention."""

from dataclasses import dataclass

from service.core.architectures.hparams import Hparams
from service.core.engines.llamacpp.cache_types import CacheTypes, is_quantised
from service.core.engines.llamacpp.flash_kernels import has_kernels
from service.core.engines.llamacpp.settings import LlamaCppSettings
from service.core.engines.llamacpp.versions import VersionRules
from service.core.problems import Contradiction
from service.core.types import Backend


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
    enabled = all(has_kernels(hp, types, backend) for backend in set(backends))
    return FlashAttention(enabled=enabled, v_padded=False)
