"""The catalogue lists without parsing, parses what is asked for once, and follows its source."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from sqlalchemy import Engine

from service.catalog.builtin_models import BuiltinModels
from service.catalog.model_rows import ModelRow
from service.catalog.models import ModelCatalog
from service.catalog.stored_models import StoredModels, user_entry
from service.core.model_facts import model_facts
from service.core.problems import UnknownModel, UnreadableModel, Unsupported
from service.gguf.reader import read_header
from service.store.database import transaction
from service.store.models import keep_user_model
from tests.gguf.gguf_bytes import LITTLE, TEXT
from tests.models import load_architecture_model, load_model


class CountingModels:
    """Built-in models of one name, counting how often a header is read."""

    def __init__(self, name: str) -> None:
        self.builtin = BuiltinModels()
        self.name = name
        self.current_revision = 0
        self.headers_read = 0

    def revision(self) -> int:
        """As set by the test."""
        return self.current_revision

    def rows(self) -> Sequence[ModelRow]:
        """Rows of the one name."""
        return [row for row in self.builtin.rows() if row.name == self.name]

    def header_xz(self, row: ModelRow) -> bytes:
        """The file, counted."""
        self.headers_read += 1
        return self.builtin.header_xz(row)


def test_a_model_is_parsed_when_first_asked_for_and_once() -> None:
    """Listing and resolving read no header; the second question gets the same object."""
    source = CountingModels("llama-3.2-1b")
    catalog = ModelCatalog(source)
    row = catalog.resolve("llama-3.2-1b").row
    assert (len(catalog.search()), source.headers_read) == (1, 0)
    assert catalog.model(row) is catalog.model(catalog.resolve("Llama 3.2 1B:q4_k_m").row)
    assert source.headers_read == 1


def test_a_model_bears_the_catalogues_name_and_quant() -> None:
    """GPT-OSS says MXFP4_MOE of itself and is published as MXFP4."""
    catalog = ModelCatalog(BuiltinModels())
    row = catalog.resolve("gpt-oss-20b").row
    model = catalog.model(row)
    assert (model.id, model.name, model.quant) == (row.id, "gpt-oss-20b", "MXFP4")
    assert model.id == load_model("gpt-oss-20b:MXFP4").id


def test_rows_are_taken_anew_only_after_the_revision_moved() -> None:
    """What was parsed before stays."""
    source = CountingModels("llama-3.2-1b")
    catalog = ModelCatalog(source)
    model = catalog.model(catalog.resolve("llama-3.2-1b").row)
    source.name = "llama-3.2-3b"
    catalog.refresh()
    assert catalog.resolve("llama-3.2-1b").row.id == model.id
    source.current_revision = 1
    catalog.refresh()
    assert catalog.resolve("llama-3.2-3b").row.name == "llama-3.2-3b"
    with pytest.raises(UnknownModel):
        catalog.resolve("llama-3.2-1b")


def test_search_finds_every_word_in_name_or_architecture() -> None:
    """All models for no word, none for a word that is in none."""
    catalog = ModelCatalog(BuiltinModels())
    assert len(catalog.search()) == 127
    assert [summary.name for summary in catalog.search("LLAMA 405b")] == ["llama-3.1-405b"]
    assert {summary.architecture for summary in catalog.search("deepseek4")} == {"deepseek4"}
    assert catalog.search("llama nothing") == ()
    (summary,) = catalog.search("llama-3.3-70b")
    assert summary.quants == ("Q2_K", "Q3_K_M", "IQ4_XS", "Q4_K_M", "Q5_K_M", "Q6_K", "Q8_0", "F16")
    assert (summary.parameters, summary.trained_context_tokens) == (70_553_706_560, 131_072)


def test_a_users_model_is_kept_and_planned_with_like_any_other(database: Engine) -> None:
    """It comes back from the database with the id, tensors and metadata it was read with."""
    model = replace(load_architecture_model("qwen3-dense"), name="My Model: 1/2")
    with transaction(database) as session:
        keep_user_model(session, user_entry(model, fallback_name="file", source="https://example.org/m.gguf"))
    catalog = ModelCatalog(StoredModels(database))
    row = catalog.resolve("my-model-1-2").row
    again = catalog.model(row)
    assert (again.id, again.tensors, again.metadata) == (model.id, model.tensors, model.metadata)
    assert (row.name, row.parameters) == ("my-model-1-2", model_facts(model).parameters)


def test_a_stored_catalogue_notices_what_is_added(database: Engine) -> None:
    """The revision moves with a user's model."""
    catalog = ModelCatalog(StoredModels(database))
    with pytest.raises(UnknownModel):
        catalog.resolve("mine")
    with transaction(database) as session:
        keep_user_model(
            session, user_entry(replace(load_architecture_model("qwen3-dense"), name=None), fallback_name="mine")
        )
    catalog.refresh()
    assert catalog.resolve("mine").row.architecture == "qwen3"


def test_a_model_that_was_removed_meanwhile_is_unknown(database: Engine) -> None:
    """The row was listed, its header is gone, and no release has one of that content."""
    (shipped,) = CountingModels("gpt-oss-20b").rows()
    row = replace(shipped, id="sha256:" + "0" * 64)
    with pytest.raises(UnknownModel, match="no longer in the catalogue"):
        ModelCatalog(StoredModels(database)).model(row)


def test_only_models_that_can_be_planned_with_are_kept() -> None:
    """An unknown architecture and a header with neither tensors nor vocabulary are refused at the door."""
    unknown = read_header(LITTLE.preamble(0, 1) + LITTLE.pair("general.architecture", TEXT, "nova"))
    with pytest.raises(Unsupported, match="nova"):
        user_entry(unknown, fallback_name="nova")
    model = load_architecture_model("qwen3-dense")
    metadata = {key: value for key, value in model.metadata.items() if not key.startswith("tokenizer.")}
    with pytest.raises(UnreadableModel, match="no tensors"):
        user_entry(
            replace(model, tensors=(), tensor_by_name={}, quant=None, metadata=metadata), fallback_name="nothing"
        )
