"""Which kind of speculation a file is made for, and what it must share with its target."""

import pytest

from service.core.architectures.architecture import SpecType
from service.core.architectures.hparams import read_hparams
from service.core.engines.llamacpp.drafts import check_shared, resolve_spec_type, spec_type_of
from service.core.problems import Contradiction, InvalidRequest
from service.core.types import Model
from tests.models import load_graph_model, load_model
from tests.shapes import LLAMA, model

LLAMA_70B = load_model("llama-3.3-70b:Q4_K_M")
LLAMA_1B = load_model("llama-3.2-1b:Q8_0")
WITH_DRAFT_LAYERS = load_model("qwen3.6-27b-mtp:Q4_K_M")


@pytest.mark.parametrize(
    ("draft", "spec_type"),
    [
        (LLAMA_1B, "draft-simple"),
        (WITH_DRAFT_LAYERS, "draft-mtp"),
        (load_graph_model("eagle3"), "draft-eagle3"),
        (load_graph_model("dflash2"), "draft-dflash"),
        (load_graph_model("dflash"), "draft-dspark"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.architecture,
)
def test_a_file_says_what_it_drafts_as(draft: Model, spec_type: SpecType) -> None:
    """By its architecture, by a Markov head, or by the draft block at its end; anything else is an ordinary model."""
    assert spec_type_of(draft) == spec_type
    assert resolve_spec_type(None, draft) == spec_type
    assert resolve_spec_type(spec_type, draft) == spec_type


def test_a_model_with_draft_layers_may_draft_as_an_ordinary_one() -> None:
    """Asked for, it runs whole."""
    assert resolve_spec_type("draft-simple", WITH_DRAFT_LAYERS) == "draft-simple"


@pytest.mark.parametrize(
    ("asked", "draft"),
    [("draft-eagle3", LLAMA_1B), ("draft-simple", load_graph_model("eagle3")), ("draft-mtp", LLAMA_1B)],
)
def test_a_file_of_another_kind_is_refused(asked: SpecType, draft: Model) -> None:
    """What the file is made for is named."""
    with pytest.raises(Contradiction, match=spec_type_of(draft)) as refused:
        resolve_spec_type(asked, draft)
    assert refused.value.fields == ("engine.draft.spec_type",)


def test_only_draft_layers_need_no_model() -> None:
    """Every other kind needs a file, and something must be said."""
    assert resolve_spec_type("draft-mtp", None) == "draft-mtp"
    with pytest.raises(Contradiction, match="needs a draft model"):
        resolve_spec_type("draft-simple", None)
    with pytest.raises(InvalidRequest, match="neither"):
        resolve_spec_type(None, None)


def test_drafts_of_the_same_family_are_let_pass() -> None:
    """Tokens may differ by as many as llama.cpp allows."""
    check_shared(read_hparams(LLAMA_70B), LLAMA_1B, "draft-simple")
    check_shared(read_hparams(WITH_DRAFT_LAYERS), load_model("qwen3.6-27b-mtp:Q8_0"), "draft-mtp")
    few = model("llama", {**LLAMA, "vocab_size": 32_000})
    for vocab_size in (32_000 - 128, 32_000 + 128):
        check_shared(read_hparams(few), model("llama", {**LLAMA, "vocab_size": vocab_size}), "draft-simple")


@pytest.mark.parametrize(
    ("target", "draft", "spec_type", "about"),
    [
        (LLAMA_70B, load_model("qwen3-0.6b:Q8_0"), "draft-simple", "151,936 tokens"),
        (LLAMA_70B, WITH_DRAFT_LAYERS, "draft-mtp", "5,120 values"),
        (LLAMA_70B, load_graph_model("eagle3"), "draft-eagle3", "256 values"),
        (
            model("llama", {**LLAMA, "vocab_size": 32_000}),
            model("llama", {**LLAMA, "vocab_size": 32_129}),
            "draft-simple",
            "32,129",
        ),
    ],
)
def test_strangers_are_refused(target: Model, draft: Model, spec_type: SpecType, about: str) -> None:
    """A draft with other tokens, or made for other hidden states, cannot work."""
    with pytest.raises(Contradiction, match=about) as refused:
        check_shared(read_hparams(target), draft, spec_type)
    assert refused.value.fields == ("engine.draft",)
