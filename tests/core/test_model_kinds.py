"""Files are told apart by what they say of themselves."""

from dataclasses import replace

import pytest

from service.core.model_kinds import KINDS, ModelKind, implied_architecture, model_kind, refuse_unplanned_kind
from service.core.problems import Unsupported
from service.core.types import MetadataValue, Model
from tests.models import load_architecture_model, load_model

LLAMA = load_model("llama-3.2-1b:Q4_K_M")


def saying(architecture: str = "llama", **metadata: MetadataValue) -> Model:
    """A model with other words about itself; two underscores stand for a dot."""
    said = {key.replace("__", "."): value for key, value in metadata.items()}
    return replace(LLAMA, architecture=architecture, metadata={**LLAMA.metadata, **said})


SAID: list[tuple[Model, ModelKind]] = [
    (LLAMA, "model"),
    (saying(general__type="model"), "model"),
    (saying("clip"), "mmproj"),
    (saying("clip", general__type="mmproj"), "mmproj"),
    (saying("clip", general__type="model"), "mmproj"),
    (saying(general__type="adapter", adapter__type="lora"), "lora"),
    (saying("controlvector"), "control-vector"),
    (saying("imatrix", general__type="imatrix"), "imatrix"),
    (saying("flux"), "diffusion"),
    (saying("sdxl"), "diffusion"),
    (saying("diffusion"), "diffusion"),
    (replace(saying(tokenizer__ggml__model="gpt2"), tensors=(), tensor_by_name={}), "vocabulary"),
    (saying("nova"), "model"),
]


@pytest.mark.parametrize(("model", "kind"), SAID)
def test_kinds(model: Model, kind: ModelKind) -> None:
    """General type, architecture and tensors decide, in this order."""
    assert model_kind(model) == kind


@pytest.mark.parametrize("name", ["dream-dense", "llada-moe-moe", "mamba2-dense"])
def test_language_models_that_are_no_plain_decoders_are_models(name: str) -> None:
    """A diffusion language model runs in llama.cpp like any other."""
    assert model_kind(load_architecture_model(name)) == "model"


@pytest.mark.parametrize(("model", "kind"), SAID)
def test_what_is_not_planned_says_what_to_plan_instead(model: Model, kind: ModelKind) -> None:
    """Only models pass."""
    if kind == "model":
        refuse_unplanned_kind(model)
        assert KINDS[kind].not_planned is None
        return
    with pytest.raises(Unsupported) as refused:
        refuse_unplanned_kind(model)
    assert KINDS[kind].what in refused.value.detail
    assert str(KINDS[kind].not_planned) in refused.value.detail


def test_architectures_that_files_rightly_leave_out() -> None:
    """An importance matrix and files of stable-diffusion.cpp have none; anything else must have one."""
    assert implied_architecture({"general.type": "imatrix"}, []) == "imatrix"
    assert implied_architecture({}, ["first_stage_model.x", "model.diffusion_model.out.0.weight"]) == "diffusion"
    assert implied_architecture({}, ["blk.0.attn_q.weight"]) is None
