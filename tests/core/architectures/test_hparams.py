"""Shapes derived from metadata: of the catalogue's models, and of metadata that is wrong."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.architectures.facts import ARCHITECTURES
from service.core.architectures.hparams import Hparams, read_hparams
from service.core.problems import PlanProblem, UnreadableModel, Unsupported
from service.core.tensor_types import TENSOR_TYPE_BY_NAME
from service.core.types import LongArray, MetadataValue, Model, Tensor
from tests.models import load_architecture_model, load_model
from tests.shapes import LLAMA, model, shape


def windowed(hp: Hparams) -> list[int]:
    """Indices of windowed layers."""
    return [il for il, flag in enumerate(hp.is_swa) if flag]


def test_plain_model() -> None:
    """Head sizes default to the embedding over the heads, KV heads are read, nothing else is there."""
    hp = shape("llama")
    assert (hp.n_layer, hp.n_layer_all, hp.n_embd_head_k(), hp.n_embd_k_gqa()) == (4, 4, 32, 64)
    assert (hp.swa_type, hp.n_swa, hp.n_expert, hp.is_mla) == ("none", 0, 0, False)


def test_per_layer_arrays_hold_layer_by_layer() -> None:
    """Heads, KV heads and feed-forward widths may differ by layer."""
    hp = shape("deci", attention__head_count_kv=(2, 0, 4, 8), feed_forward_length=(64, 0, 128, 256))
    assert hp.n_head_kv == (2, 0, 4, 8)
    assert hp.n_ff == (64, 0, 128, 256)
    assert [hp.n_embd_v_gqa(il) for il in range(4)] == [64, 0, 128, 256]


@pytest.mark.parametrize(
    ("architecture", "keys", "expected"),
    [
        ("gemma2", {}, [0, 2]),
        ("cohere2", {"attention__sliding_window": 64}, [0, 1, 2]),
        ("cohere2moe", {"attention__sliding_window": 64}, [1, 2, 3]),
        ("gemma3", {}, []),
        ("gemma3", {"attention__sliding_window": 64}, [0, 1, 2, 3]),
        ("gemma3", {"attention__sliding_window": 64, "attention__sliding_window_pattern": 2}, [0, 2]),
        ("gemma3", {"attention__sliding_window": 64, "attention__sliding_window_pattern": (0, 1, 1, 0)}, [1, 2]),
        ("mimo2", {"attention__sliding_window": 64, "attention__sliding_window_pattern": (True, False)}, [0]),
        ("llama4", {}, [0, 1, 2]),
        ("llama4", {"attention__sliding_window": 0}, []),
        ("exaone4", {"attention__sliding_window": 64}, []),
        ("phi3", {"attention__sliding_window": 64}, []),
    ],
)
def test_windowed_layers(architecture: str, keys: Mapping[str, MetadataValue], expected: list[int]) -> None:
    """Which layers have a window: by period, scalar, array, condition or model size."""
    assert windowed(shape(architecture, **keys)) == expected


def test_window_sizes() -> None:
    """The window is the file's, its default or the one llama.cpp forces."""
    assert shape("gemma2").n_swa == 4096
    assert shape("gemma2", attention__sliding_window=64).n_swa == 64
    assert shape("llama4").n_swa == 8192
    assert shape("smallthinker", attention__sliding_window=64).n_swa == 4096


def test_recurrent_layers_of_hybrid_families() -> None:
    """By interval, by array, by layers without KV heads; draft layers never."""
    states: dict[str, MetadataValue] = {
        f"ssm__{name}": 4 for name in ("conv_kernel", "inner_size", "state_size", "time_step_rank", "group_count")
    }
    assert shape("qwen35", **states).is_recr == (True, True, True, False)
    assert shape("qwen35", **states, full_attention_interval=2).is_recr == (True, False, True, False)
    assert shape("qwen35", **states, nextn_predict_layers=1).is_recr == (True, True, True, False)
    assert shape("granitehybrid", **states, attention__head_count_kv=(0, 2, 0, 2)).is_recr == (True, False, True, False)
    assert shape("falcon-h1", **states).is_recr == (True,) * 4


def test_added_layers() -> None:
    """A router layer is one more, loops multiply the blocks, draft layers are the last blocks."""
    router = shape("graniteswitch")
    assert (router.n_layer_all, router.n_layer, router.router_layer, router.n_head_kv) == (5, 4, 4, (2, 2, 2, 2, 1))
    looped = shape("nanbeige", num_loops=3, attention__head_count_kv=(1, 2, 4, 8))
    assert (looped.n_layer_all, looped.n_head_kv) == (12, (1, 2, 4, 8) * 3)
    draft = shape("glm4moe", nextn_predict_layers=1)
    assert (draft.n_layer_all, draft.n_layer) == (4, 3)


def test_vocabulary_is_the_token_list_or_the_matrices() -> None:
    """Tokens counted, else rows of the output matrix, else of the embedding."""
    f16 = TENSOR_TYPE_BY_NAME["f16"]
    embedding = Tensor(name="token_embd.weight", type=f16, shape=(256, 1000), size_bytes=512000)
    counted = model("llama", LLAMA, (embedding,))
    assert read_hparams(counted).n_vocab == 1000
    tokens = {**counted.metadata, "tokenizer.ggml.tokens": LongArray(count=999)}
    listed = Model(id="", name=None, quant=None, architecture="llama", metadata=tokens, tensors=(), tensor_by_name={})
    assert read_hparams(listed).n_vocab == 999


def test_special_parts_of_catalogue_models() -> None:
    """Latents, indexers, compression and shared caches as the files state them."""
    latent = read_hparams(load_model("deepseek-r1-671b:Q4_K_M"))
    assert (latent.is_mla, latent.n_embd_k_gqa(), latent.n_lora_kv) == (True, 576, 512)
    shared = read_hparams(load_model("gemma-4-e4b:Q4_K_M"))
    assert (shared.n_layer_all, shared.n_layer_kv_from_start) == (42, 24)
    compressed = read_hparams(load_model("deepseek-v4-flash:Q4_K_M"))
    assert {4, 128} <= set(compressed.dsv4_compress_ratios)
    assert all(compressed.is_swa)
    indexed = read_hparams(load_architecture_model("glm-dsa-moe"))
    assert any(indexed.is_indexer_full[: indexed.n_layer])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"block_count": 0}, "block_count is 0"),
        ({"block_count": 513}, "block_count is 513"),
        ({"block_count": "four"}, "not a whole number"),
        ({"block_count": True}, "not a whole number"),
        ({"embedding_length": 0}, "embedding_length is 0"),
        ({"embedding_length": -1}, "embedding_length is -1"),
        ({"embedding_length": 2**40}, "outside 0 to"),
        ({"context_length": 1.5}, "not a whole number"),
        ({"nextn_predict_layers": 5}, "block_count"),
        ({"attention__head_count_kv": (1, 2)}, "has 2 entries where 4"),
        ({"attention__head_count": LongArray(count=10**6)}, "more than 512"),
        ({"expert_count": 2000}, "experts"),
        ({"expert_count": 4, "expert_used_count": 8}, "8 of 4 experts"),
    ],
)
def test_absurd_metadata_is_an_unreadable_model(changes: Mapping[str, MetadataValue], message: str) -> None:
    """Every value that cannot be is a problem that names its key and what to do."""
    with pytest.raises(UnreadableModel, match=message) as problem:
        shape("llama", **changes)
    assert "check that the file is complete" in problem.value.detail


@pytest.mark.parametrize("missing", ["block_count", "context_length", "embedding_length"])
def test_missing_key_is_an_unreadable_model(missing: str) -> None:
    """A required key that is not there is named."""
    with pytest.raises(UnreadableModel, match=rf"llama\.{missing} is missing"):
        read_hparams(model("llama", {key: value for key, value in LLAMA.items() if key != missing}))


@pytest.mark.parametrize("name", ["clip", "gptj"])
def test_names_without_a_language_model_are_refused(name: str) -> None:
    """Projectors and names without a loader say what to do instead."""
    with pytest.raises(Unsupported, match=name):
        shape(name)


values = st.one_of(
    st.integers(-2, 2**33),
    st.integers(0, 64),
    st.floats(),
    st.booleans(),
    st.text(max_size=3),
    st.tuples(st.integers(-1, 9), st.integers(0, 9), st.booleans(), st.integers(0, 9)),
    st.builds(LongArray, count=st.integers(0, 10**6)),
)
suffixes = st.sampled_from(
    (
        *LLAMA,
        "nextn_predict_layers",
        "attention.sliding_window",
        "attention.sliding_window_pattern",
        "attention.key_length_mla",
        "attention.value_length_mla",
        "attention.kv_lora_rank",
        "attention.compress_ratios",
        "attention.indexer.types",
        "attention.indexer.key_length",
        "attention.recurrent_layers",
        "full_attention_interval",
        "ssm.conv_kernel",
        "ssm.inner_size",
        "num_loops",
        "hyper_connection.count",
        "expert_count",
        "pooling_type",
    )
)


@given(name=st.sampled_from(sorted(ARCHITECTURES)), changes=st.dictionaries(suffixes, values, max_size=6))
def test_any_metadata_gives_a_shape_or_a_problem(name: str, changes: Mapping[str, MetadataValue]) -> None:
    """Whatever a file states, for whatever architecture: a shape with an entry per layer, or a problem."""
    try:
        hp = read_hparams(model(name, {**LLAMA, **changes}))
    except PlanProblem:
        return
    per_layer = (hp.n_head, hp.n_head_kv, hp.n_ff, hp.n_ff_exp, hp.n_expert_used, hp.is_swa, hp.is_recr, hp.is_ple)
    assert {len(values) for values in (*per_layer, hp.dsv4_compress_ratios, hp.is_indexer_full)} == {hp.n_layer_all}
    assert 0 <= hp.n_layer <= hp.n_layer_all <= 512
