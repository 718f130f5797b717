"""The catalogue of models is addressed by content and lists without reading headers."""

from dataclasses import replace

import pytest
from sqlalchemy import Engine, event
from sqlalchemy.exc import IntegrityError

from service.store.database import transaction
from service.store.models import (
    ModelEntry,
    keep_user_model,
    model,
    model_header_xz,
    models,
    synchronise_builtin_models,
)
from service.store.revisions import Changes, revisions

LLAMA = ModelEntry(
    id="sha256:aa",
    name="llama-3.3-70b",
    quant="Q4_K_M",
    architecture="llama",
    tensor_count=724,
    tensor_data_bytes=42_500_000_000,
    parameters=70_553_706_560,
    active_parameters=70_553_706_560,
    trained_context_tokens=131_072,
    header_xz=b"\xfd7zXZ\x00\x00\x04header of llama",
)
QWEN = replace(LLAMA, id="sha256:bb", name="qwen3-32b", header_xz=b"\xfd7zXZ\x00\x00\x04header of qwen")


def synchronise(database: Engine, *entries: ModelEntry) -> Changes:
    with transaction(database) as session:
        return synchronise_builtin_models(session, entries)


def test_models_come_back_as_they_were_given(database: Engine) -> None:
    """Labels, byte counts beyond 32 bits and the header survive the database."""
    assert synchronise(database, QWEN, LLAMA) == Changes(inserted=2)
    with transaction(database) as session:
        first, second = models(session)
        assert (first.id, first.name, first.quant, first.tensor_data_bytes) == (
            LLAMA.id,
            LLAMA.name,
            LLAMA.quant,
            42_500_000_000,
        )
        assert second == model(session, QWEN.id)
        assert model_header_xz(session, LLAMA.id) == LLAMA.header_xz


def test_listing_reads_no_header(database: Engine) -> None:
    """The list of models never selects the column of headers."""
    synchronise(database, LLAMA, QWEN)
    statements: list[str] = []
    event.listen(database, "before_cursor_execute", lambda *arguments: statements.append(arguments[2]))
    with transaction(database) as session:
        assert len(models(session)) == 2
    assert len(statements) == 1
    assert "header_xz" not in statements[0]


def test_synchronising_follows_the_data(database: Engine) -> None:
    """A renamed model keeps its content, a dropped one leaves, the same data again changes nothing."""
    synchronise(database, LLAMA, QWEN)
    renamed = replace(LLAMA, name="llama-3.3-70b-instruct")
    assert synchronise(database, renamed) == Changes(changed=1, removed=1)
    assert not synchronise(database, renamed)


def test_model_of_a_user_survives_synchronisation(database: Engine) -> None:
    """An upload stays when the built-in data does not have it."""
    with transaction(database) as session:
        kept = keep_user_model(session, QWEN)
    assert synchronise(database, LLAMA) == Changes(inserted=1)
    with transaction(database) as session:
        assert model(session, QWEN.id) == kept


def test_uploading_known_content_answers_with_the_row_that_is_there(database: Engine) -> None:
    """The same content is kept once and stays as it was first named; the catalogue does not move."""
    synchronise(database, LLAMA)
    with transaction(database) as session:
        before = revisions(session)
        kept = keep_user_model(session, replace(LLAMA, name="my llama"))
        assert (kept.name, kept.origin) == (LLAMA.name, "builtin")
        assert revisions(session) == before


def test_two_builtin_models_cannot_share_a_name(database: Engine) -> None:
    """`name:quant` of the built-in data names one model."""
    with pytest.raises(IntegrityError):
        synchronise(database, LLAMA, replace(QWEN, name=LLAMA.name))


def test_user_may_reuse_a_builtin_name(database: Engine) -> None:
    """Another file under a known name is kept beside the built-in one."""
    synchronise(database, LLAMA)
    with transaction(database) as session:
        keep_user_model(session, replace(QWEN, name=LLAMA.name))
        assert [row.origin for row in models(session)] == ["builtin", "user"]


def test_unknown_model_is_none(database: Engine) -> None:
    """An id without a row gives nothing."""
    with transaction(database) as session:
        assert model(session, "sha256:00") is None
        assert model_header_xz(session, "sha256:00") is None
