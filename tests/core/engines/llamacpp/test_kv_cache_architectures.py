"""Caches of every architecture that llama.cpp can make from metadata alone."""

import json
from typing import Any

import pytest

from service.core.architectures.facts import ARCHITECTURES
from service.core.architectures.hparams import read_hparams
from service.core.engines.llamacpp.context import resolve_context
from service.core.engines.llamacpp.kv_cache import kv_index
from service.core.engines.llamacpp.settings import LlamaCppSettings
from service.core.engines.llamacpp.versions import NEWEST
from service.core.types import MetadataValue, Model
from tests.golden_rows import GOLDEN
from tests.shapes import model

ROWS = [json.loads(line) for line in (GOLDEN / "caches.jsonl").read_text().splitlines()]
# drafts that need their target, names without a loader, and what llama.cpp's own test does not make
WITHOUT_A_ROW = {"clip", "eagle3", "gemma4-assistant", "gptj", "plm", "rwkv6qwen2"}


def metadata_model(row: dict[str, Any]) -> Model:
    """The model of a row."""
    keys: dict[str, MetadataValue] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in row["metadata"].items()
    }
    return model(row["architecture"], keys)


def planned_bytes(of: Model, config: dict[str, Any]) -> int:
    """Caches of one configuration, all layers in host memory."""
    hp = read_hparams(of)
    settings = LlamaCppSettings(
        n_ubatch=config.get("n_ubatch", 512),
        flash_attn=config.get("flash_attn"),
        cache_type_k=config.get("cache_type_k"),
        cache_type_v=config.get("cache_type_v"),
        kv_unified=config.get("kv_unified"),
        swa_full=config.get("swa_full", False),
    )
    ctx = resolve_context(
        hp,
        settings,
        config["ctx"],
        config.get("n_parallel", 1),
        NEWEST,
        n_draft=config.get("n_draft", 0),
        role=config.get("role", "target" if hp.runs_alone else "draft"),
    )
    return kv_index(hp, ctx).bytes_between(0, hp.n_layer_all, "cpu")


@pytest.mark.parametrize("name", sorted({row["architecture"] for row in ROWS}))
def test_caches_of_an_architecture_are_llamacpps(name: str) -> None:
    """Every variant and configuration of the architecture: equal to the byte."""
    wrong = [
        config
        for row in ROWS
        if row["architecture"] == name
        for config in row["caches"]
        if planned_bytes(metadata_model(row), config) != config["context_bytes"]
    ]
    assert wrong == []


def test_every_architecture_that_can_be_made_is_there() -> None:
    """All names but those that llama.cpp cannot make by themselves."""
    assert set(ARCHITECTURES) - {row["architecture"] for row in ROWS} == WITHOUT_A_ROW
