"""Caches and recurrent state against public logs of real cards."""

import pytest

from service.core.architectures.hparams import read_hparams
from service.core.engines.llamacpp.context import ContextRole, resolve_context
from service.core.engines.llamacpp.kv_cache import KvIndex, cache_groups, kv_index
from service.core.engines.llamacpp.settings import LlamaCppSettings
from tests.models import load_model
from tests.observed_logs import CATALOGUE, ObservedRow, mib, observed_rows

TRUNK_AND_MTP: tuple[ContextRole, ...] = ("target", "mtp")
STATE_KINDS = ("recurrent", "ple")

NOT_COMPARED = {
    "ik-dsv3-0324-q3kxl-7gpu": "the log prints no cache size",
    "deepseek-r1-671b-8x-mi250x-ollama": "a conversion without latent attention, whose shape is not printed",
    "strix-qwen35-122b-c64k-uma-oom": "the load failed before the cache",
    "glm52-q4kxl-4x-rtxpro6000-c896k": "the log prints no cache size",
    "glm52-q4kxl-4gpu-rocm-bench": "shape not printed, model not in the catalogue",
    "minimax-m21-iq4nl-4x3090": "shape not printed, model not in the catalogue",
    "llama4-scout-q2kxl-2xd700-ngl13": "neither context nor cache size printed",
    "llama4-scout-q2kxl-2xd700-ngl12": "neither context nor cache size printed",
    "qwen35-9b-q4kxl-3060l-np4-fit": "shape not printed, model not in the catalogue",
    "qwen35-9b-q4kxl-3060l-np1-fit": "shape not printed, model not in the catalogue",
    "qwen38-flash-next-4xrocm": "context not printed, model not in the catalogue",
    "qwen38-flash-next-iq4xs-4xv620": "context not printed, model not in the catalogue",
    "q6k-60layer-vulkan-20g-11g-oom": "model not named",
    "qwen15-72b-q3km-2x3090-oom": "context not printed, model not in the catalogue",
    "qwen25-3b-class-2xvulkan-lmstudio": "the log prints no cache size",
    "qwen38-flash-next-q8-cmoe-b": "shape not printed, model not in the catalogue",
    "qwen38-flash-next-q8-ngl1": "no cache on the device that is printed",
    "qwen38-flash-next-iq4xs-2x3090-ot": "the log prints no cache size",
    "qwen36-27b-mtp-mmproj-2gpu": "the cache of one of two devices is printed: see the test of its MTP context",
    "qwen27b-2gpu-ollama-rc21": "context not printed",
    "qwen38-27b-rpc-2x9070xt": "the cache of two of three devices is printed",
    "nemotron51b-q5km-2x3090": "shape not printed, model not in the catalogue",
    "llama-70b-q8-2of3gpu-ollama": "context not printed",
    "3x4090-pr15860-breakdown": "model not named",
    "qwen25-3b-class-vulkan-8g-breakdown": "context not printed",
    "qwen14b-class-vulkan-8g-overcommit": "model not named",
    "dsv4-flash-q2kxl-3090-cpumoe-oom": "the log prints no cache size",
    "deepseek-r1-q2kxl-rocm-3rpc": "the log prints no cache size",
    "qwen3-coder-480b-q6kxl-rocm-3rpc": "the log prints no cache size",
}


def compared() -> list[ObservedRow]:
    """Rows with a cache size and a known shape."""
    rows = observed_rows().values()
    failed = {row.id for row in rows if row.kv_mib == 0 and row.states_shape}
    return [row for row in rows if row.id not in NOT_COMPARED and row.id not in failed]


def test_every_log_is_compared_or_explained() -> None:
    """No row is left out without a reason; a log that ends before its cache is one."""
    left_out = [row for row in observed_rows().values() if row.id not in {each.id for each in compared()}]
    assert [row.id for row in left_out if row.id not in NOT_COMPARED and row.values["outcome"] != "oom"] == []
    assert all(row.states_shape or row.id in CATALOGUE for row in compared())


@pytest.mark.parametrize("row", compared(), ids=lambda row: row.id)
def test_cache_is_what_the_log_prints(row: ObservedRow) -> None:
    """KV cache over all devices within 0.1 % of the log, or within its rounding."""
    kinds = ("base",) if row.id.startswith("gemma4-e4b") else None
    groups = tuple(
        group
        for group in cache_groups(row.hp, row.ctx())
        if group.layout.kind not in STATE_KINDS and (kinds is None or group.layout.kind in kinds)
    )
    planned_mib = mib(KvIndex(groups=groups).bytes_between(0, row.hp.n_layer_all, row.backend))
    assert planned_mib == pytest.approx(row.kv_mib, rel=0.001, abs=row.printed_step_mib)


@pytest.mark.parametrize("row", [row for row in compared() if row.state_mib], ids=lambda row: row.id)
def test_recurrent_state_is_what_the_log_prints(row: ObservedRow) -> None:
    """Recurrent state over all devices within 0.1 % of the log, or within its rounding."""
    groups = tuple(group for group in cache_groups(row.hp, row.ctx()) if group.layout.kind in STATE_KINDS)
    planned_mib = mib(KvIndex(groups=groups).bytes_between(0, row.hp.n_layer_all, row.backend))
    assert planned_mib == pytest.approx(row.state_mib, rel=0.001, abs=0.01 * len(row.values["devices"]))


def test_draft_context_and_state_are_what_the_log_prints() -> None:
    """A Qwen3.6-27B with its MTP head: one layer of cache in the draft context, four sequences of state."""
    row = observed_rows()["qwen36-27b-mtp-mmproj-2gpu"]
    hp = read_hparams(load_model("qwen3.6-27b-mtp:Q4_K_M"))
    trunk, draft = (
        resolve_context(hp, LlamaCppSettings(kv_unified=True), row.flags["c"], 4, row.rules, role=role)
        for role in TRUNK_AND_MTP
    )
    state = tuple(group for group in cache_groups(hp, trunk) if group.layout.kind in STATE_KINDS)
    assert mib(kv_index(hp, draft).bytes_between(0, hp.n_layer_all, "cuda")) == row.values["mtp"]["kv_mib"]["CUDA1"]
    assert mib(KvIndex(groups=state).bytes_between(0, hp.n_layer_all, "cuda")) == pytest.approx(row.state_mib, abs=0.02)
