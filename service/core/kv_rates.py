"""What a model's caches cost per token of context, for each type of cache."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from service.core.architectures.hparams import read_hparams
from service.core.engines.llamacpp.cache_types import CACHE_TYPE_NAMES
from service.core.engines.llamacpp.context import resolve_context
from service.core.engines.llamacpp.kv_cache import kv_index
from service.core.engines.llamacpp.settings import LlamaCppSettings
from service.core.engines.llamacpp.versions import version_rules
from service.core.problems import PlanProblem
from service.core.types import Model

_SHORT_TOKENS: Final = 2**18
_LONG_TOKENS: Final = 2**19
"""Contexts beyond every sliding window, so that between them only what grows with the context grows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KvRate:
    """Bytes of the caches of one stream: constant_bytes + per_token_bytes times the context.

    Exact once the context is longer than every sliding window; what is constant are windows and recurrent state.
    """

    per_token_bytes: float
    constant_bytes: int


def kv_rates(model: Model) -> Mapping[str, KvRate]:
    """Rates by type of cache, the same for K and V; types that llama.cpp refuses for this model are left out.

    Raises as `read_hparams` does.
    """
    read_hparams(model)
    rates: dict[str, KvRate] = {}
    for name in CACHE_TYPE_NAMES:
        try:
            short, long = (_cache_bytes(model, name, tokens) for tokens in (_SHORT_TOKENS, _LONG_TOKENS))
        except PlanProblem:
            continue
        rate = (long - short) / (_LONG_TOKENS - _SHORT_TOKENS)
        rates[name] = KvRate(per_token_bytes=rate, constant_bytes=round(short - rate * _SHORT_TOKENS))
    return rates


def _cache_bytes(model: Model, cache_type: str, context_tokens: int) -> int:
    hp = read_hparams(model)
    settings = LlamaCppSettings(cache_type_k=cache_type, cache_type_v=cache_type)
    ctx = resolve_context(hp, settings, context_tokens, 1, version_rules(None, None))
    return kv_index(hp, ctx).bytes_between(0, hp.n_layer_all, "cpu")
