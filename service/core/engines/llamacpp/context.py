"""Numbers of a llama.cpp context: cells, streams, batches, logits rows, cache types, flash attention."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import lru_cache
from operator import attrgetter
from typing import Final, Literal

from service.core.architectures.hparams import Hparams
from service.core.engines.llamacpp.cache_types import CacheTypes, check_cache_types, resolve_cache_types
from service.core.engines.llamacpp.flash_attention import FlashAttention, resolve_flash_attention
from service.core.engines.llamacpp.settings import LlamaCppSettings, SplitMode
from service.core.engines.llamacpp.versions import VersionRules
from service.core.problems import InvalidRequest, Unsupported
from service.core.types import Backend, TensorType
from service.core.units import pad

ContextRole = Literal["target", "mtp", "draft"]

MAX_SEQUENCES: Final = 256
MAX_CONTEXT_TOKENS: Final = 2**31 - 1
_HIGHEST: Final = (
    ("workload.context_tokens", MAX_CONTEXT_TOKENS),
    ("workload.parallel", MAX_SEQUENCES),
    ("engine.n_batch", MAX_CONTEXT_TOKENS),
    ("engine.n_ubatch", MAX_CONTEXT_TOKENS),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextNumbers:
    """What a context is made with; names are llama_cparams' own.

    n_ctx: tokens of all streams together; n_ctx_seq: cells of one stream; n_stream: separate parts of the cache;
    n_seq_max: sequences. n_batch, n_ubatch: tokens per batch and per pass. n_outputs: logits rows reserved.
    flash_attn: whether the graph uses it. v_padded: whether V is stored transposed, every layer as wide as the widest.
    swa_full: sliding-window layers keep the full context. cache_padding_tokens: what cell counts are rounded up to.
    n_rs_seq: draft snapshots of recurrent state. mtp: the context of the draft (MTP) layers instead of the trunk's.
    """

    n_ctx: int
    n_ctx_seq: int
    n_stream: int
    n_seq_max: int
    kv_unified: bool
    n_batch: int
    n_ubatch: int
    n_outputs: int
    flash_attn: bool
    v_padded: bool
    type_k: TensorType
    type_v: TensorType
    offload_kqv: bool = True
    swa_full: bool = False
    cache_padding_tokens: int = 256
    n_rs_seq: int = 0
    mtp: bool = False

    @property
    def n_tokens(self) -> int:
        """Tokens of the largest pass."""
        return min(self.n_ctx, self.n_ubatch)

    @property
    def shape(self) -> tuple[object, ...]:
        """Everything but the length: contexts of one shape have the same graphs."""
        return (self.n_tokens, *_SHAPE(self))


_SHAPE: Final[Callable[[ContextNumbers], tuple[object, ...]]] = attrgetter(
    *(field.name for field in fields(ContextNumbers) if field.name not in ("n_ctx", "n_ctx_seq"))
)


def resolve_context(
    hp: Hparams,
    settings: LlamaCppSettings,
    context_tokens: int,
    parallel: int,
    rules: VersionRules,
    *,
    backends: tuple[Backend, ...] = (),
    n_draft: int = 0,
    role: ContextRole = "target",
) -> ContextNumbers:
    """The numbers llama.cpp derives from what was asked.

    context_tokens is -c, for all `parallel` streams together; `parallel` an explicit -np. backends: those that hold
    layers, where flash attention on `auto` depends on their kernels. n_draft: tokens a draft proposes per step.
    role: "mtp" is the context of a model's own draft layers, "draft" that of a draft model.
    Raises `InvalidRequest` for counts out of range, `Contradiction` and `Unsupported` where llama.cpp refuses.

    Source: llama_context, src/llama-context.cpp:91-322; llama_init_from_model, 3795-3880
    (llama.cpp in llama-cpp-python 0.3.36).
    """
    _check(hp, settings, context_tokens, parallel, rules, role)
    types, attention, padding = _cache_rules(
        hp, rules, backends, settings.cache_type_k, settings.cache_type_v, settings.flash_attn, settings.split_mode
    )
    unified = settings.kv_unified is True or not rules.has("separate_streams")
    n_ctx, n_ctx_seq = context_cells(context_tokens, parallel, padding, unified=unified)
    n_batch = min(context_tokens, settings.n_batch) if hp.causal_attn else settings.n_batch
    drafted = n_draft if role == "target" else 0
    rows = logits_rows(hp, settings, n_batch, parallel * (1 + drafted), rules)
    return ContextNumbers(
        n_ctx=n_ctx,
        n_ctx_seq=n_ctx_seq,
        n_stream=1 if unified else parallel,
        n_seq_max=parallel,
        kv_unified=unified,
        n_batch=n_batch,
        n_ubatch=min(n_batch, settings.n_ubatch),
        n_outputs=min(n_ctx, n_batch, settings.n_ubatch, rows),
        flash_attn=attention.enabled,
        v_padded=attention.v_padded,
        type_k=types.k,
        type_v=types.v,
        offload_kqv=settings.kv_offload,
        swa_full=settings.swa_full or not rules.has("windowed_cache"),
        cache_padding_tokens=padding,
        n_rs_seq=drafted if hp.arch.state_rollback else 0,
        mtp=role == "mtp",
    )


@lru_cache(maxsize=4096)
def _cache_rules(
    hp: Hparams,
    rules: VersionRules,
    backends: tuple[Backend, ...],
    cache_type_k: str | None,
    cache_type_v: str | None,
    flash_attn: bool | None,
    split_mode: SplitMode | None,
) -> tuple[CacheTypes, FlashAttention, int]:
    """Types of the cache, flash attention, and what cells are rounded up to; the same for all lengths, so memoised."""
    settings = LlamaCppSettings(
        cache_type_k=cache_type_k, cache_type_v=cache_type_v, flash_attn=flash_attn, split_mode=split_mode
    )
    types = resolve_cache_types(settings)
    attention = resolve_flash_attention(hp, settings, types, rules, backends)
    check_cache_types(hp, types, flash_attn=not attention.v_padded)
    return types, attention, context_padding_tokens(rules, flash_attn=not attention.v_padded)


def context_cells(context_tokens: int, n_seq_max: int, padding_tokens: int, *, unified: bool) -> tuple[int, int]:
    """Tokens of the context and cells of one stream, both rounded up.

    Source: src/llama-context.cpp:283-303 (llama.cpp in llama-cpp-python 0.3.36).
    """
    n_ctx = pad(context_tokens, padding_tokens)
    if unified:
        return n_ctx, n_ctx
    n_ctx_seq = pad(n_ctx // n_seq_max, padding_tokens)
    if n_ctx_seq == 0:
        raise InvalidRequest(
            f"{context_tokens} context tokens leave none for each of {n_seq_max} streams: ask for more context",
            fields=("workload.context_tokens",),
        )
    return n_ctx_seq * n_seq_max, n_ctx_seq


def context_padding_tokens(rules: VersionRules, *, flash_attn: bool) -> int:
    """What the context is rounded up to: 256 in today's llama.cpp, at times less.

    Source: src/llama-context.cpp:283 (llama.cpp in llama-cpp-python 0.3.36); ggml-org/llama.cpp pull requests 6438,
    7257, 16812 and 17046 for earlier builds.
    """
    if rules.has("padded_context"):
        return 256
    if rules.has("unpadded_cache"):
        return 1
    if flash_attn or not rules.has("cache_padded_less_without_flash_attn"):
        return 256 if rules.has("cache_padded_for_kernels") else 32
    return 32


def logits_rows(hp: Hparams, settings: LlamaCppSettings, n_batch: int, server_rows: int, rules: VersionRules) -> int:
    """Rows the context can output: a batch, or only those the server asks for: its streams with their draft tokens.

    Source: src/llama-context.cpp:246-248; server_output_limits, tools/server/server-context.cpp:40-54; drafts:
    common/speculative.cpp:2475-2500; pull request 23861 (llama.cpp in llama-cpp-python 0.3.36).
    """
    if hp.arch.encoder or settings.tool != "llama-server" or not rules.has("logits_rows_of_streams"):
        return n_batch
    return min(settings.n_batch, server_rows)


def _check(
    hp: Hparams,
    settings: LlamaCppSettings,
    context_tokens: int,
    parallel: int,
    rules: VersionRules,
    role: ContextRole,
) -> None:
    _check_counts(settings, context_tokens, parallel)
    _check_version(hp, rules)
    _check_role(hp, role)


def _check_counts(settings: LlamaCppSettings, context_tokens: int, parallel: int) -> None:
    counts = context_tokens, parallel, settings.n_batch, settings.n_ubatch
    for (field, highest), value in zip(_HIGHEST, counts, strict=True):
        if not 1 <= value <= highest:
            raise InvalidRequest(f"{field} is {value}: llama.cpp takes 1 to {highest}", fields=(field,))


def _check_version(hp: Hparams, rules: VersionRules) -> None:
    if hp.is_mla and not rules.has("latent_cache"):
        raise Unsupported(
            f"llama.cpp of {rules.as_of} cannot read this {hp.arch.name} file, whose latent attention came in April "
            "2025: name a later build or date",
            fields=("engine.version", "engine.date"),
        )


def _check_role(hp: Hparams, role: ContextRole) -> None:
    """Refuse a draft context without draft layers, and a draft model on its own.

    Source: src/llama-context.cpp:148-166 and 3881-3888 (llama.cpp in llama-cpp-python 0.3.36).
    """
    if role == "mtp" and (hp.n_layer_nextn == 0 or hp.router_layer >= 0):
        raise Unsupported(
            f"this {hp.arch.name} file has no draft (MTP) layers: name a draft model, or a file that has them",
            fields=("engine.draft",),
        )
    if role != "draft" and not hp.runs_alone:
        raise Unsupported(
            f"this {hp.arch.name} file is a draft that borrows from its target model: plan the target and give this "
            "file as engine.draft",
            fields=("model",),
        )
