"""Numbers of a context."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.architectures.hparams import Hparams, read_hparams
from service.core.engines.llamacpp.context import ContextNumbers, ContextRole, context_cells, resolve_context
from service.core.engines.llamacpp.settings import LlamaCppSettings
from service.core.engines.llamacpp.versions import NEWEST, version_rules
from service.core.problems import Contradiction, InvalidRequest, PlanProblem, Unsupported
from service.core.types import Backend
from tests.golden_rows import PLACEMENT_FILES, golden_rows
from tests.models import load_model
from tests.shapes import shape

DEFAULTS = LlamaCppSettings()
DRAFTS: tuple[ContextRole, ...] = ("mtp", "draft")


def llama() -> Hparams:
    """An ordinary dense model."""
    return read_hparams(load_model("llama-3.1-8b:Q4_K_M"))


def context(
    tokens: int = 8192,
    parallel: int = 1,
    settings: LlamaCppSettings = DEFAULTS,
    hp: Hparams | None = None,
    version: str | None = None,
    backends: tuple[Backend, ...] = (),
) -> ContextNumbers:
    """Numbers for a model, Llama 3.1 8B where none is given."""
    return resolve_context(hp or llama(), settings, tokens, parallel, version_rules(version, None), backends=backends)


@pytest.mark.parametrize("file", PLACEMENT_FILES)
def test_context_of_every_golden_row(file: str) -> None:
    """Tokens of the context as llama.cpp rounded them."""
    assert [str(row) for row in golden_rows(file) if row.ctx().n_ctx != row.observed["n_ctx"]] == []


@pytest.mark.parametrize(
    ("tokens", "parallel", "unified", "n_ctx", "n_ctx_seq"),
    [
        (5000, 1, False, 5120, 5120),
        (5000, 3, False, 5376, 1792),
        (5000, 3, True, 5120, 5120),
        (1, 1, False, 256, 256),
        (256, 4, False, 1024, 256),
    ],
)
def test_context_is_rounded_up_per_stream(
    tokens: int, parallel: int, unified: bool, n_ctx: int, n_ctx_seq: int
) -> None:
    """To 256 in all, and for each stream of its own."""
    assert context_cells(tokens, parallel, 256, unified=unified) == (n_ctx, n_ctx_seq)


def test_explicit_streams_split_the_cache_unless_unified() -> None:
    """As many streams as asked for; one with kv_unified."""
    split, unified = context(16384, 4), context(16384, 4, LlamaCppSettings(kv_unified=True))
    assert (split.n_stream, split.n_ctx_seq) == (4, 4096)
    assert (unified.n_stream, unified.n_ctx_seq, unified.n_seq_max) == (1, 16384, 4)


def test_batches_never_exceed_the_context() -> None:
    """n_batch and n_ubatch are cut to the context that was asked for, before rounding."""
    ctx = context(300)
    assert (ctx.n_ctx, ctx.n_batch, ctx.n_ubatch) == (512, 300, 300)
    wide = context(8192, settings=LlamaCppSettings(n_batch=256, n_ubatch=512))
    assert (wide.n_batch, wide.n_ubatch) == (256, 256)


@pytest.mark.parametrize(
    ("tool", "version", "parallel", "rows"),
    [
        ("llama-server", None, 1, 1),
        ("llama-server", None, 4, 4),
        ("llama-server", "b8829", 4, 512),
        ("llama-server", "b9700", 4, 4),
        ("llama-bench", None, 1, 512),
    ],
)
def test_logits_rows_by_tool_and_build(tool: str, version: str | None, parallel: int, rows: int) -> None:
    """The server reserves a row per stream since mid-2026; everything else a whole pass."""
    settings = LlamaCppSettings(tool="llama-bench" if tool == "llama-bench" else "llama-server")
    assert context(parallel=parallel, settings=settings, version=version).n_outputs == rows


def test_draft_tokens_add_logits_rows_and_state_snapshots() -> None:
    """Each stream outputs its draft tokens too; the state rolls back where the architecture can."""
    hp = read_hparams(load_model("qwen3.6-27b:Q4_K_M"))
    ctx = resolve_context(hp, DEFAULTS, 8192, 2, NEWEST, n_draft=3)
    assert (ctx.n_outputs, ctx.n_rs_seq) == (8, 3)
    assert resolve_context(llama(), DEFAULTS, 8192, 2, NEWEST, n_draft=3).n_rs_seq == 0


def test_flash_attention_on_auto() -> None:
    """On by default, off before autumn 2025, off where the kernels lack the head size, forced off for grok."""
    assert context().flash_attn
    assert not context(version="b5237").flash_attn
    unlike = shape("minicpm3", attention__key_length=96, attention__value_length=64)
    on_cuda = context(hp=unlike, backends=("cuda",))
    assert (on_cuda.flash_attn, on_cuda.v_padded) == (False, False)
    assert context(hp=unlike, backends=("rpc",)).flash_attn
    grok = context(hp=shape("grok"), settings=LlamaCppSettings(flash_attn=True))
    assert (grok.flash_attn, grok.v_padded) == (False, True)
    assert context(backends=("cuda", "cuda")).flash_attn
    assert context(hp=read_hparams(load_model("deepseek-r1-671b:Q4_K_M")), backends=("cuda",)).flash_attn


@pytest.mark.parametrize(
    ("backend", "k", "v", "heads", "kv_heads", "enabled"),
    [
        ("cuda", 128, 128, 8, 8, True),
        ("cuda", 48, 48, 8, 8, False),
        ("cuda", 192, 128, 64, 8, True),
        ("cuda", 192, 128, 64, 16, False),
        ("rocm", 512, 512, 8, 8, False),
        ("rocm", 512, 512, 8, 4, True),
        ("metal", 48, 48, 8, 8, True),
        ("metal", 128, 192, 8, 8, False),
        ("sycl", 512, 512, 8, 8, True),
        ("sycl", 192, 192, 8, 8, False),
        ("vulkan", 56, 24, 8, 8, True),
        ("vulkan", 60, 60, 8, 8, False),
        ("cpu", 60, 60, 8, 8, True),
    ],
)
def test_flash_attention_on_auto_follows_the_kernels(
    backend: Backend, k: int, v: int, heads: int, kv_heads: int, enabled: bool
) -> None:
    """Each backend has kernels for its own head sizes and groups."""
    keys = {"key_length": k, "value_length": v, "head_count": heads, "head_count_kv": kv_heads}
    hp = shape("qwen3", **{f"attention__{name}": value for name, value in keys.items()})
    assert context(hp=hp, backends=(backend,)).flash_attn is enabled


def test_kernels_of_metal_and_sycl_want_one_cache_type() -> None:
    """Different types for K and V switch `auto` off there."""
    settings = LlamaCppSettings(cache_type_k="f32")
    asked = {
        backend: context(settings=settings, backends=(backend,)).flash_attn for backend in ("cuda", "metal", "sycl")
    }
    assert asked == {"cuda": True, "metal": False, "sycl": False}


def test_draft_contexts_output_a_row_per_stream() -> None:
    """Of a draft model and of MTP layers alike; state snapshots belong to the target."""
    hp = read_hparams(load_model("qwen3.6-27b-mtp:Q4_K_M"))
    for role in DRAFTS:
        ctx = resolve_context(hp, DEFAULTS, 8192, 4, NEWEST, n_draft=3, role=role)
        assert (ctx.n_outputs, ctx.n_rs_seq) == (4, 0)


def test_flash_attention_off_pads_values() -> None:
    """Switched off by the user, V is stored transposed."""
    ctx = context(settings=LlamaCppSettings(flash_attn=False))
    assert (ctx.flash_attn, ctx.v_padded) == (False, True)


def test_quantised_values_switch_flash_attention_on() -> None:
    """Left to llama.cpp, a quantised V cache turns it on; a user's no is a contradiction."""
    assert context(settings=LlamaCppSettings(cache_type_v="q8_0")).flash_attn
    with pytest.raises(Contradiction, match="switch flash_attn on or use cache_type_v f16"):
        context(settings=LlamaCppSettings(cache_type_v="q8_0", flash_attn=False))


Refusal = Callable[[], ContextNumbers]


@pytest.mark.parametrize(
    ("refused", "problem", "way_out"),
    [
        (lambda: context(0), InvalidRequest, "context_tokens is 0"),
        (lambda: context(-1), InvalidRequest, "context_tokens is -1"),
        (lambda: context(2**31), InvalidRequest, "takes 1 to"),
        (lambda: context(parallel=0), InvalidRequest, "parallel is 0"),
        (lambda: context(parallel=257), InvalidRequest, "takes 1 to 256"),
        (lambda: context(settings=LlamaCppSettings(n_batch=0)), InvalidRequest, "n_batch is 0"),
        (lambda: context(settings=LlamaCppSettings(n_ubatch=0)), InvalidRequest, "n_ubatch is 0"),
        (lambda: context(settings=LlamaCppSettings(cache_type_k="q6_K")), InvalidRequest, "f16, bf16, q8_0"),
        (
            lambda: context(settings=LlamaCppSettings(split_mode="tensor", flash_attn=False)),
            Contradiction,
            "or split by layer",
        ),
        (
            lambda: context(
                settings=LlamaCppSettings(cache_type_k="q8_0"), hp=read_hparams(load_model("deepseek-r1-671b:Q4_K_M"))
            ),
            Unsupported,
            "the same value",
        ),
        (
            lambda: context(
                settings=LlamaCppSettings(cache_type_k="q8_0"), hp=read_hparams(load_model("deepseek-v4-flash:Q4_K_M"))
            ),
            Unsupported,
            "the same value",
        ),
        (
            lambda: context(settings=LlamaCppSettings(cache_type_k="q8_0"), hp=shape("phi2", attention__key_length=80)),
            Unsupported,
            "use f16, bf16 or f32",
        ),
        (
            lambda: context(hp=read_hparams(load_model("deepseek-r1-671b:Q4_K_M")), version="b4000"),
            Unsupported,
            "name a later build or date",
        ),
        (lambda: context(hp=shape("eagle3")), Unsupported, "plan the target"),
        (
            lambda: context(
                hp=shape("gemma4-assistant", attention__sliding_window=4, attention__sliding_window_pattern=(1, 0))
            ),
            Unsupported,
            "plan the target",
        ),
        (
            lambda: resolve_context(llama(), DEFAULTS, 4096, 1, NEWEST, role="mtp"),
            Unsupported,
            "name a draft model",
        ),
    ],
)
def test_refusals_say_what_to_do(refused: Refusal, problem: type[PlanProblem], way_out: str) -> None:
    """What llama.cpp would refuse is a problem of its kind with the way out."""
    with pytest.raises(problem, match=way_out) as refusal:
        refused()
    assert refusal.value.fields


@pytest.mark.parametrize(
    ("version", "flash_attn", "n_ctx"),
    [
        ("b1700", False, 10016),
        ("b2600", False, 10240),
        ("b5237", False, 10016),
        ("b5237", True, 10240),
        ("b6895", True, 10016),
        (None, True, 10240),
    ],
)
def test_rounding_of_earlier_builds(version: str | None, flash_attn: bool, n_ctx: int) -> None:
    """10,000 tokens: rounded to 32 or 256 by build and flash attention."""
    ctx = context(10016, settings=LlamaCppSettings(flash_attn=flash_attn), version=version)
    assert ctx.n_ctx == n_ctx


@given(tokens=st.integers(1, 2**22), parallel=st.integers(1, 256), unified=st.booleans())
def test_every_stream_gets_what_was_asked_for(tokens: int, parallel: int, unified: bool) -> None:
    """The context is never smaller than asked, and is its streams' sum."""
    ctx = context(tokens, parallel, LlamaCppSettings(kv_unified=unified))
    assert ctx.n_ctx >= tokens - parallel
    assert ctx.n_ctx == ctx.n_ctx_seq * ctx.n_stream
    assert 1 <= ctx.n_outputs <= ctx.n_tokens <= ctx.n_ubatch <= ctx.n_batch
