"""Models that users bring stand beside the built-in ones and change nothing about them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from service.catalog.builtin_models import BuiltinModels, builtin_rows
from service.catalog.model_rows import ModelRow, parse_checkpoint, parse_header
from service.catalog.models import ModelCatalog
from service.catalog.stored_models import user_entry
from service.checkpoints.documents import checkpoint_of
from service.core.checkpoints import CheckpointTensor
from service.core.problems import UnknownModel, Unsupported
from tests.models import load_model
from tests.remote.checkpoints import CONFIG

LLAMA = load_model("llama-3.2-1b:Q4_K_M")


@dataclass(frozen=True, slots=True)
class WithUsers:
    """Built-in models and some rows of users."""

    added: tuple[ModelRow, ...]

    def revision(self) -> int:
        """Nothing changes."""
        return 0

    def rows(self) -> Sequence[ModelRow]:
        """Users' rows first, so that order cannot help."""
        return [*self.added, *builtin_rows()]

    def header_xz(self, row: ModelRow) -> bytes:
        """Any header does."""
        return BuiltinModels().header_xz(replace(row, name="llama-3.2-1b", quant="Q4_K_M"))


def users_row(name: str, quant: str = "Q4_K_M", number: int = 1, *aliases: str) -> ModelRow:
    return replace(
        builtin_rows()[0], name=name, quant=quant, id=f"sha256:{number:064x}", aliases=aliases, is_builtin=False
    )


BUILTIN = ModelCatalog(BuiltinModels())
REFERENCES = ["llama-3.3-70b", "llama-3.3-70b:Q4_K_M", "Llama 3.3 70B Instruct:q4_k_m", "llama-3.3-70b-instruct-Q8_0"]


@pytest.mark.parametrize("reference", REFERENCES)
def test_no_import_changes_what_a_built_in_name_means(reference: str) -> None:
    """Not under the same name, nor under one that the built-in name covers."""
    rows = (users_row("llama-3.3-70b"), users_row("llama-3.3-70b-instruct", number=2), users_row("llama", number=3))
    assert ModelCatalog(WithUsers(rows)).resolve(reference) == BUILTIN.resolve(reference)


def test_a_quant_that_is_not_built_in_is_found() -> None:
    """Under the name that the user's file has, or one that means the same."""
    row = users_row("llama-3.3-70b-instruct", "IQ1_S")
    catalogue = ModelCatalog(WithUsers((row,)))
    assert catalogue.resolve("llama-3.3-70b-instruct:iq1_s").row.id == row.id
    assert catalogue.resolve("llama-3.3-70b:IQ1_S").row.id == row.id
    with pytest.raises(UnknownModel, match="has no quant 'IQ1_M'; it has IQ4_XS"):
        catalogue.resolve("llama-3.3-70b:IQ1_M")


def test_what_names_cannot_reach_is_named_by_its_id() -> None:
    """A row's reference is one that leads to it."""
    hidden, own = users_row("llama-3.3-70b"), users_row("house", number=2)
    catalogue = ModelCatalog(WithUsers((hidden, own)))
    assert catalogue.reference_to(hidden) == hidden.id
    assert catalogue.reference_to(own) == "house:Q4_K_M"
    twin = users_row("house", number=3)
    assert ModelCatalog(WithUsers((own, twin))).reference_to(own) == own.id
    assert all(catalogue.resolve(catalogue.reference_to(row)).row == row for row in (hidden, own))


def test_two_of_a_user_with_one_name_are_told_apart() -> None:
    """Nothing is guessed between them."""
    rows = (users_row("house"), users_row("house", number=2))
    with pytest.raises(UnknownModel, match="2 models are called house:Q4_K_M") as refused:
        ModelCatalog(WithUsers(rows)).resolve("house")
    assert set(refused.value.suggestions) == {row.id for row in rows}


def test_aliases_come_before_names() -> None:
    """Whatever their case; and a name knows whether it is taken."""
    row = users_row("house", "Q4_K_M", 1, "team/assistant", "gpt")
    catalogue = ModelCatalog(WithUsers((row,)))
    assert catalogue.resolve("Team/Assistant").row == row
    assert catalogue.named("GPT") == catalogue.named("house") == catalogue.named("house:q4_k_m") == row
    assert catalogue.named("house:Q8_0") is None
    named = catalogue.named("Llama-3.3-70B")
    assert named is not None
    assert named.name == "llama-3.3-70b"


def test_a_row_of_a_model_reads_back_as_the_model() -> None:
    """Under its own name, else that of its file."""
    entry = user_entry(replace(LLAMA, name="My Model: 1/2"), fallback_name="file")
    assert (entry.name, entry.quant, entry.kind, entry.format) == ("my-model-1-2", "Q4_K_M", "model", "gguf")
    assert parse_header(entry.header_xz).id == LLAMA.id
    assert user_entry(replace(LLAMA, name=None), fallback_name="House v2").name == "house-v2"
    assert user_entry(replace(LLAMA, name="!!!"), fallback_name="").name == "llama"


@pytest.mark.parametrize(
    ("name", "expected"), [("Llava", "llava-mmproj"), ("mmproj-llava", "mmproj-llava"), ("x" * 300, None)]
)
def test_a_projector_is_not_called_like_its_model(name: str, expected: str | None) -> None:
    """Files of one repository often bear one name."""
    entry = user_entry(replace(LLAMA, architecture="clip", name=name), fallback_name="file")
    assert entry.kind == "mmproj"
    assert entry.name == (expected or "x" * 193 + "-mmproj")
    assert len(entry.name) <= 200


def test_a_checkpoint_is_kept_beside_gguf_models() -> None:
    """It reads back as it was, and llama.cpp is not asked to load it."""
    tensor = CheckpointTensor(name="lm_head.weight", dtype="BF16", shape=(16, 8))
    checkpoint = checkpoint_of(CONFIG, [tensor])
    entry = user_entry(checkpoint, fallback_name="Llama-3.3-70B-Instruct")
    assert (entry.name, entry.quant, entry.format) == ("llama-3.3-70b-instruct-checkpoint", "bfloat16", "safetensors")
    assert parse_checkpoint(entry.header_xz).id == checkpoint.id
    row = replace(users_row(entry.name, entry.quant), format="safetensors")
    catalogue = ModelCatalog(WithUsers((row,)))
    with pytest.raises(Unsupported, match="convert it to GGUF"):
        catalogue.model(catalogue.resolve("llama-3.3-70b-instruct-checkpoint").row)
    assert catalogue.resolve("llama-3.3-70b-instruct").row == BUILTIN.resolve("llama-3.3-70b-instruct").row
