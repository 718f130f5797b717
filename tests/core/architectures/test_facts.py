"""The table of architectures, against the names and loaders of llama.cpp."""

import pytest

from service.core.architectures.facts import ARCHITECTURES, architecture
from service.core.problems import Unsupported
from tests.golden_rows import golden_rows

DENIED_TENSOR_SPLIT = [
    "grok",
    "mpt",
    "plamo2",
    "minicpm3",
    "gemma3n",
    "mamba",
    "mamba2",
    "jamba",
    "falcon-h1",
    "olmo2",
    "olmoe",
    "deepseek2",
    "deepseek32",
    "hy_v4",
    "dots3note",
    "glm-dsa",
    "bitnet",
    "t5",
    "nemotron_h",
    "nemotron_h_moe",
    "granitehybrid",
    "minimax-01",
    "minimax-m2",
    "minimax-m3",
    "mistral4",
    "kimi-linear",
    "bailingmoe3",
    "kimi-k3",
    "glm5-next",
    "qwen3tts",
    "qwen4exp",
]
ROLLING_BACK = [
    "kimi-k3",
    "qwen35",
    "qwen35moe",
    "qwen4exp",
    "deepseek4",
    "glm5-next",
    "nemotron_h",
    "nemotron_h_moe",
    "lfm2",
    "lfm2moe",
    "bailingmoe3",
]
WITHOUT_A_CACHE = [
    "bert",
    "jina-bert-v2",
    "jina-bert-v3",
    "nomic-bert",
    "nomic-bert-moe",
    "neo-bert",
    "eurobert",
    "modern-bert",
    "gemma-embedding",
    "wavtokenizer-dec",
    "dream",
    "llada",
    "llada-moe",
    "rnd1",
]
NOT_LOADABLE = {"clip", "gptj"}


def test_every_architecture_has_one_row() -> None:
    """All 153 names of llama.cpp, each once and under its own name."""
    assert len(ARCHITECTURES) == 153
    assert all(architecture(name).name == name for name in ARCHITECTURES)


def test_unknown_architecture_is_refused_with_a_way_out() -> None:
    """A name llama.cpp does not know is a problem, never a guess."""
    with pytest.raises(Unsupported, match="'llama5' is not known") as refusal:
        architecture("llama5")
    assert refusal.value.fields == ("model",)


def test_lists_of_the_source_agree() -> None:
    """Architectures without tensor split, with state rollback and without a cache, as llama.cpp lists them."""
    rows = ARCHITECTURES.values()
    assert {row.name for row in rows if not row.tensor_split} == {*DENIED_TENSOR_SPLIT, "clip", "gptj"}
    assert {row.name for row in rows if row.state_rollback} == set(ROLLING_BACK)
    assert {row.name for row in rows if row.memory == "none"} - NOT_LOADABLE == set(WITHOUT_A_CACHE)
    assert {row.name for row in rows if row.unloadable} == NOT_LOADABLE


def test_rules_are_complete() -> None:
    """What a memory class needs is stated: states, indexers, windows with a pattern."""
    for row in ARCHITECTURES.values():
        assert (row.memory in ("recurrent", "hybrid", "hybrid_indexed")) == (row.state is not None)
        assert not row.memory.endswith("indexed") or row.indexer is not None
        assert row.window is None or row.window.layers != "period" or row.window.period > 1


def test_golden_architectures_are_all_known() -> None:
    """Every architecture of the golden models has its row."""
    assert {row.model.architecture for row in golden_rows("architectures")} <= set(ARCHITECTURES)
