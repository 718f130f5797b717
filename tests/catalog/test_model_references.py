"""References as people write them lead to one model, or to a refusal that helps."""

import pytest

from service.catalog.builtin_models import BuiltinModels, builtin_rows
from service.catalog.model_index import ModelIndex
from service.catalog.model_rows import ModelRow
from service.core.problems import UnknownModel

INDEX = ModelIndex(BuiltinModels().rows())


def row(name: str, quant: str, digest: str = "0") -> ModelRow:
    """A row of a small catalogue."""
    return ModelRow(
        name=name,
        quant=quant,
        id=f"sha256:{digest}",
        architecture="llama",
        tensor_count=1,
        tensor_data_bytes=1,
        parameters=1,
        active_parameters=1,
        trained_context_tokens=1,
    )


def test_every_model_is_found_by_reference_and_by_id() -> None:
    """Exactly, and without a remark."""
    for known in builtin_rows():
        for reference in (known.reference, known.id):
            found = INDEX.resolve(reference)
            assert (found.row, found.notes) == (known, ())


@pytest.mark.parametrize(
    ("reference", "meant"),
    [
        ("LLAMA-3.3-70B:q4_k_m", "llama-3.3-70b:Q4_K_M"),
        ("Llama 3.3 70B:Q8_0", "llama-3.3-70b:Q8_0"),
        ("llama_3_3_70b:q6-k", "llama-3.3-70b:Q6_K"),
        ("Llama3.3-70B:Q2_K", "llama-3.3-70b:Q2_K"),
        ("llama 3.3 70b instruct:Q4_K_M", "llama-3.3-70b:Q4_K_M"),
        ("Meta-Llama-3.1-8B-Instruct:F16", "llama-3.1-8b:F16"),
        ("gemma-3-27b-it:BF16", "gemma-3-27b:BF16"),
        ("Qwen 2.5 7B:Q4_K_M", "qwen2.5-7b:Q4_K_M"),
        ("unsloth/Llama-3.3-70B-Instruct-GGUF:Q4_K_M", "llama-3.3-70b:Q4_K_M"),
        ("Llama-3.3-70B-Instruct-Q4_K_M.gguf", "llama-3.3-70b:Q4_K_M"),
        ("models/Meta-Llama-3.1-8B-Instruct-Q8_0-00001-of-00002.gguf", "llama-3.1-8b:Q8_0"),
        ("llama-3.3-70b Q8_0", "llama-3.3-70b:Q8_0"),
        ("llama-3.1-8b-iq2_xxs", "llama-3.1-8b:IQ2_XXS"),
        ("DeepSeek-R1:Q2_K", "deepseek-r1-671b:Q2_K"),
        ("gpt-oss-20b:MXFP4_MOE", "gpt-oss-20b:MXFP4"),
        ("gemma-4-26b-a4b:mxfp4", "gemma-4-26b-a4b:MXFP4_MOE"),
        ("llama-3.3-nemotron-super-49b:Q8_0", "llama-3_3-nemotron-super-49b:Q8_0"),
    ],
)
def test_case_separators_and_idle_words_do_not_matter(reference: str, meant: str) -> None:
    """However it is spelt, the model is the one that was named."""
    assert INDEX.resolve(reference).row.reference == meant


@pytest.mark.parametrize(
    ("reference", "meant"),
    [
        ("llama-3.3-70b", "llama-3.3-70b:Q4_K_M"),
        ("gpt-oss-20b", "gpt-oss-20b:MXFP4"),
        ("GPT OSS 120B", "gpt-oss-120b:MXFP4"),
        ("gemma-4-26b-a4b", "gemma-4-26b-a4b:Q4_K_M"),
    ],
)
def test_a_bare_name_means_the_usual_quant_and_says_so(reference: str, meant: str) -> None:
    """Q4_K_M, or what the model comes in."""
    found = INDEX.resolve(reference)
    assert found.row.reference == meant
    assert any(f"No quant was named: {meant} is meant" in note for note in found.notes)


def test_words_that_were_passed_over_are_told() -> None:
    """A reading that is not literal is part of the answer."""
    assert INDEX.resolve("Llama 3.3 70B Instruct:Q8_0").notes == ("'Llama 3.3 70B Instruct' is read as llama-3.3-70b.",)


@pytest.mark.parametrize(
    ("reference", "detail", "suggestion"),
    [
        ("llama-3.3-70b:Q4_K_XL", "has no quant 'Q4_K_XL'; it has Q4_K_M", "llama-3.3-70b:Q4_K_M"),
        ("llama-3.3-70b:", "has no quant ''", "llama-3.3-70b:Q4_K_M"),
        ("gpt-oss-20b:Q4_K_M", "it has MXFP4", "gpt-oss-20b:MXFP4"),
        ("llama-3.3-7b", "called 'llama-3.3-7b'", "llama-3.3-70b"),
        ("qwen3-30b:Q4_K_M", "called 'qwen3-30b'", "qwen3-30b-a3b"),
        ("mistral", "Close to it: ", "mistral-7b"),
        ("DeepSeek-R1-Distill-Llama-70B", "Close to it: ", "deepseek-r1-671b"),
    ],
)
def test_what_is_unknown_is_refused_with_suggestions(reference: str, detail: str, suggestion: str) -> None:
    """Close names are shown and never taken."""
    with pytest.raises(UnknownModel) as problem:
        INDEX.resolve(reference)
    assert detail in problem.value.detail
    assert suggestion in problem.value.suggestions
    assert problem.value.fields == ("model",)


@pytest.mark.parametrize(
    "reference", ["", "   ", ":", "/", ":Q4_K_M", ".gguf", "instruct", "sha256:", "sha256:00", "\0", "é" * 9000]
)
def test_no_name_is_refused(reference: str) -> None:
    """Nothing at all names no model."""
    with pytest.raises(UnknownModel):
        INDEX.resolve(reference)


def test_nothing_is_guessed_between_two_models() -> None:
    """Two names with the same telling words need the whole name."""
    index = ModelIndex([row("nova-7b-chat", "Q4_K_M", "1"), row("nova-7b-instruct", "Q4_K_M", "2")])
    assert index.resolve("Nova 7B Chat").row.id == "sha256:1"
    with pytest.raises(UnknownModel, match="could be nova-7b-chat or nova-7b-instruct") as problem:
        index.resolve("nova-7b")
    assert problem.value.suggestions == ("nova-7b-chat", "nova-7b-instruct")


def test_a_users_model_of_the_same_name_and_quant_needs_its_id() -> None:
    """Of two models of one reference, the id tells which."""
    index = ModelIndex([row("nova-7b", "Q4_K_M", "1"), row("nova-7b", "Q4_K_M", "2"), row("nova-7b", "Q8_0", "3")])
    with pytest.raises(UnknownModel, match="name one by its id") as problem:
        index.resolve("nova-7b:Q4_K_M")
    assert problem.value.suggestions == ("sha256:1", "sha256:2")
    assert index.resolve("SHA256:2").row.id == "sha256:2"
    assert index.resolve("nova-7b:Q8_0").row.id == "sha256:3"


def test_a_bare_name_without_a_usual_quant_needs_one() -> None:
    """Neither of two unusual quants is chosen."""
    index = ModelIndex([row("nova-7b", "Q5_0", "1"), row("nova-7b", "Q6_K", "2")])
    with pytest.raises(UnknownModel, match="name nova-7b:Q5_0 or nova-7b:Q6_K"):
        index.resolve("nova-7b")


def test_a_name_that_ends_like_a_quant_is_found_as_a_name() -> None:
    """The literal reading comes first."""
    index = ModelIndex([row("nova-f16", "Q8_0", "1"), row("nova", "F16", "2")])
    assert index.resolve("nova-f16").row.id == "sha256:1"
    assert index.resolve("nova:f16").row.id == "sha256:2"
