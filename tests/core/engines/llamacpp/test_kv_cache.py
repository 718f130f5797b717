"""Caches of a context, against what llama.cpp itself allocates and against laws."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.architectures.hparams import read_hparams
from service.core.engines.llamacpp.context import ContextRole, resolve_context
from service.core.engines.llamacpp.kv_cache import KvIndex, cache_groups, kv_index
from service.core.engines.llamacpp.settings import LlamaCppSettings
from service.core.engines.llamacpp.slots import CPU
from service.core.engines.llamacpp.versions import NEWEST, version_rules
from service.core.types import Backend
from tests.golden_rows import PLACEMENT_FILES, GoldenRow, golden_rows
from tests.models import load_architecture_model, load_model

TRUNK_AND_MTP: tuple[ContextRole, ...] = ("target", "mtp")
REFERENCES = (
    "llama-3.1-8b:Q4_K_M",
    "gemma-3-27b:Q4_K_M",
    "gemma-3n-e4b:Q4_K_M",
    "gpt-oss-20b:MXFP4",
    "deepseek-v3.2:Q4_K_M",
    "deepseek-v4-flash:Q4_K_M",
    "minimax-m3:Q4_K_M",
    "kimi-k3:Q4_K_M",
    "qwen3.6-27b:Q4_K_M",
    "falcon-h1-34b:Q4_K_M",
)
BACKENDS: tuple[Backend, ...] = ("cuda", "rpc", "metal")
CELL_KINDS = ("base", "swa", "indexer", "csa", "hca", "recurrent")


def allocated(row: GoldenRow) -> tuple[list[int], int, int]:
    """Cache bytes per device and on the host, and the context, as planned."""
    index, ctx, slots, n_layers = kv_index(row.hp, row.ctx()), row.ctx(), row.slots, row.hp.n_layer_all

    def held(device: int, backend: Backend) -> int:
        first, end = slots.range_of(device)
        return index.bytes_between(first, min(end, n_layers), backend)

    if not ctx.offload_kqv:
        return [0] * row.n_devices, index.bytes_between(0, n_layers, "cpu"), ctx.n_ctx
    return [held(device, "rpc") for device in range(row.n_devices)], held(CPU, "cpu"), ctx.n_ctx


@pytest.mark.parametrize("file", PLACEMENT_FILES)
def test_cache_of_every_device_and_the_host_is_what_llamacpp_allocates(file: str) -> None:
    """Every golden row: cache bytes per device, on the host, and the context, equal to the byte."""
    wrong = [
        str(row)
        for row in golden_rows(file)
        if allocated(row)
        != (
            [device["context_bytes"] for device in row.observed["devices"]],
            row.observed["host"]["context_bytes"],
            row.observed["n_ctx"],
        )
    ]
    assert wrong == []


@pytest.mark.parametrize("file", PLACEMENT_FILES)
def test_cells_of_every_cache_are_llamacpps(file: str) -> None:
    """Every golden row whose log lists them: cells of each cache, in the order in which they are made."""
    wrong = [
        str(row)
        for row in golden_rows(file)
        if row.observed["kv_cells"]
        and [g.cells for g in cache_groups(row.hp, row.ctx()) if g.layout.kind in CELL_KINDS]
        != row.observed["kv_cells"]
    ]
    assert wrong == []


DEFAULTS = LlamaCppSettings()


def quantised(name: str) -> LlamaCppSettings:
    """Settings with one cache type for keys and values."""
    return LlamaCppSettings(cache_type_k=name, cache_type_v=name)


def total_bytes(reference: str, context_tokens: int, parallel: int = 1, settings: LlamaCppSettings = DEFAULTS) -> int:
    """Cache bytes of a catalogue model on CUDA, all layers."""
    hp = read_hparams(load_model(reference))
    ctx = resolve_context(hp, settings, context_tokens, parallel, NEWEST)
    return kv_index(hp, ctx).bytes_between(0, hp.n_layer_all, "cuda")


@pytest.mark.parametrize(
    ("reference", "settings", "expected_bytes"),
    [
        ("llama-3.1-8b:Q4_K_M", DEFAULTS, 1073741824),
        ("llama-3.1-8b:Q4_K_M", quantised("q8_0"), 570425344),
    ],
)
def test_worked_examples(reference: str, settings: LlamaCppSettings, expected_bytes: int) -> None:
    """The figures measured for 8,192 tokens."""
    assert total_bytes(reference, 8192, settings=settings) == expected_bytes


@pytest.mark.parametrize(
    ("parallel", "settings", "expected_bytes"),
    [
        (1, DEFAULTS, 3338665984),
        (4, LlamaCppSettings(kv_unified=True), 4647288832),
        (4, DEFAULTS, 5301600256),
        (1, LlamaCppSettings(swa_full=True), 16642998272),
    ],
)
def test_windowed_cache_by_streams(parallel: int, settings: LlamaCppSettings, expected_bytes: int) -> None:
    """Gemma 3 27B at 32,768 tokens: unified multiplies the window, streams multiply the cache, swa-full drops it."""
    assert total_bytes("gemma-3-27b:Q4_K_M", 32768, parallel, settings) == expected_bytes


@given(
    reference=st.sampled_from(REFERENCES),
    shorter=st.integers(1, 200_000),
    longer=st.integers(1, 200_000),
    parallel=st.integers(1, 8),
    unified=st.booleans(),
)
def test_more_context_never_needs_fewer_bytes(
    reference: str,
    shorter: int,
    longer: int,
    parallel: int,
    unified: bool,
) -> None:
    """Cache bytes grow with the context, for every kind of memory."""
    shorter, longer = sorted((shorter, longer))
    settings = LlamaCppSettings(kv_unified=unified)
    few, many = (total_bytes(reference, tokens, parallel, settings) for tokens in (shorter, longer))
    assert few <= many


@given(reference=st.sampled_from(REFERENCES), tokens=st.integers(1, 200_000), parallel=st.integers(1, 8))
def test_quantised_cache_is_never_larger(reference: str, tokens: int, parallel: int) -> None:
    """q4_0 ≤ q8_0 ≤ f16 ≤ f32."""
    sizes = [total_bytes(reference, tokens, parallel, quantised(name)) for name in ("q4_0", "q8_0", "f16", "f32")]
    assert sizes == sorted(sizes)


@given(reference=st.sampled_from(REFERENCES), tokens=st.integers(1, 100_000), streams=st.integers(2, 8))
def test_separate_streams_never_need_less_than_one(reference: str, tokens: int, streams: int) -> None:
    """Splitting a context between streams only adds padding and windows."""
    assert total_bytes(reference, tokens, streams) >= total_bytes(reference, tokens, 1)


@given(
    reference=st.sampled_from(REFERENCES),
    cuts=st.lists(st.integers(0, 61), min_size=1, max_size=5),
    backend=st.sampled_from(BACKENDS),
)
def test_bytes_of_ranges_add_up(reference: str, cuts: list[int], backend: Backend) -> None:
    """However the layers are cut, the parts are the whole."""
    hp = read_hparams(load_model(reference))
    ctx = resolve_context(hp, quantised("q8_0"), 5000, 3, NEWEST)
    index = kv_index(hp, ctx)
    bounds = sorted({0, hp.n_layer_all, *(min(cut, hp.n_layer_all) for cut in cuts)})
    parts = [index.bytes_between(first, end, backend) for first, end in pairwise(bounds)]
    assert sum(parts) == index.bytes_between(0, hp.n_layer_all, backend)


def by_layer(index: KvIndex, n_layers: int, kind: str) -> list[int]:
    """Bytes of each layer in the caches of one kind."""
    return [
        sum(g.bytes_between(il, il + 1, "cuda") for g in index.groups if g.layout.kind == kind)
        for il in range(n_layers)
    ]


def index_of(reference: str, settings: LlamaCppSettings = DEFAULTS) -> tuple[KvIndex, int]:
    """Index of a catalogue model at 4,096 tokens, and its number of layers."""
    hp = read_hparams(load_model(reference))
    ctx = resolve_context(hp, settings, 4096, 1, NEWEST)
    return kv_index(hp, ctx), hp.n_layer_all


def test_draft_layers_have_no_cache_in_the_trunks_context() -> None:
    """The trunk's context skips MTP layers; the MTP context has them and nothing else."""
    hp = read_hparams(load_model("qwen3.6-27b-mtp:Q4_K_M"))
    trunk, draft = (
        kv_index(hp, resolve_context(hp, LlamaCppSettings(), 4096, 1, NEWEST, role=role)) for role in TRUNK_AND_MTP
    )
    last = hp.n_layer
    assert trunk.bytes_between(last, hp.n_layer_all, "cuda") == 0
    assert draft.bytes_between(0, last, "cuda") == 0
    assert draft.bytes_between(last, hp.n_layer_all, "cuda") == 4096 * 2 * 2 * hp.n_embd_k_gqa(last)


def test_layers_past_the_shared_ones_own_nothing() -> None:
    """Gemma 3n: layers from 20 on reuse earlier keys and values."""
    index, n_layers = index_of("gemma-3n-e4b:Q4_K_M")
    assert index.bytes_between(20, n_layers, "cuda") == 0
    assert all(index.bytes_between(il, il + 1, "cuda") > 0 for il in range(20))


def test_draft_snapshots_multiply_recurrent_state() -> None:
    """n_draft tokens keep 1 + n_draft rows of state where the architecture rolls back, and one elsewhere."""
    for reference, factor in (("qwen3.6-27b:Q4_K_M", 4), ("granite-4.0-h-small:Q4_K_M", 1)):
        hp = read_hparams(load_model(reference))
        plain, drafted = (
            sum(
                by_layer(
                    kv_index(hp, resolve_context(hp, LlamaCppSettings(), 4096, 1, NEWEST, n_draft=n)), 1, "recurrent"
                )
            )
            for n in (0, 3)
        )
        assert drafted == factor * plain > 0


def test_values_are_padded_to_the_widest_layer_without_flash_attention() -> None:
    """Gemma 4 E4B: transposed values are all as wide as the widest layer's."""
    with_flash, n_layers = index_of("gemma-4-e4b:Q4_K_M")
    without, _ = index_of("gemma-4-e4b:Q4_K_M", LlamaCppSettings(flash_attn=False))
    assert by_layer(without, n_layers, "base") == by_layer(with_flash, n_layers, "base")
    windowed = list(zip(by_layer(with_flash, n_layers, "swa"), by_layer(without, n_layers, "swa"), strict=True))
    assert all(padded > narrow for narrow, padded in windowed if narrow)


def test_quantised_rows_are_padded_on_cuda_only() -> None:
    """A quantised tensor whose rows are no multiple of 512 gets the rest of one row on CUDA, nothing over RPC."""
    hp = read_hparams(load_model("qwen2.5-0.5b:Q4_K_M"))
    ctx = resolve_context(hp, quantised("q8_0"), 4096, 1, NEWEST)
    index, width = kv_index(hp, ctx), hp.n_embd_k_gqa()
    missing_bytes = (512 - width % 512) // 32 * 34
    padded = -(-(4096 * width // 32 * 34 + missing_bytes) // 128) * 128
    assert width % 512
    assert index.bytes_between(0, 1, "cuda") == 2 * padded
    assert index.bytes_between(0, 1, "rpc") == 2 * 4096 * width // 32 * 34


def test_compressed_cache_keeps_a_stream_per_sequence_even_when_unified() -> None:
    """DeepSeek-V4 ignores --kv-unified for its streams, and sizes each by the whole context then."""
    hp = read_hparams(load_model("deepseek-v4-flash:Q4_K_M"))
    ctx = resolve_context(hp, LlamaCppSettings(kv_unified=True), 16384, 4, NEWEST)
    streams = {group.n_stream for group in cache_groups(hp, ctx) if not group.layout.kind.endswith("state")}
    cells = {group.layout.kind: group.cells for group in cache_groups(hp, ctx)}
    assert streams == {4}
    assert (cells["csa"], cells["hca"]) == (4096, 256)


def test_models_without_a_cache_have_no_groups() -> None:
    """Diffusion models keep no keys or values."""
    hp = read_hparams(load_architecture_model("dream-dense"))
    ctx = resolve_context(hp, LlamaCppSettings(), 4096, 1, NEWEST)
    assert kv_index(hp, ctx).groups == ()
    assert kv_index(hp, ctx).bytes_between(0, hp.n_layer_all, "cuda") == 0


def test_before_the_windowed_cache_every_layer_kept_the_context() -> None:
    """Until May 2025 sliding-window layers were as long as the others."""
    hp = read_hparams(load_model("gemma-3-27b:Q4_K_M"))

    def cells(as_of: str | None) -> list[int]:
        ctx = resolve_context(hp, LlamaCppSettings(flash_attn=True), 32768, 1, version_rules(None, as_of))
        return [group.cells for group in cache_groups(hp, ctx)]

    assert cells("2025-04") == [32768, 32768]
    assert cells(None) == [32768, 1536]


def test_cost_of_a_range_does_not_grow_with_its_layers() -> None:
    """Layers of one width are one class: 126 layers are summed as one product."""
    index, _ = index_of("llama-3.1-405b:Q4_K_M")
    assert [len(group.layout.first_classes) for group in index.groups] == [1]
