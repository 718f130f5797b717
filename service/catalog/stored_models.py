"""Models in the database: seeded from model_db, and those that users add."""

import lzma
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from service.catalog.builtin_models import BuiltinModels, builtin_models_digest
from service.catalog.model_rows import ModelRow
from service.core.model_facts import model_facts
from service.core.problems import UnknownModel, UnreadableModel
from service.core.types import Model
from service.gguf.writer import write_header
from service.store import models as store
from service.store.models import ModelEntry, StoredModel
from service.store.revisions import Catalogue, Changes, follow_builtin_data, revisions

_CATALOGUE: Catalogue = "models"
_NOT_IN_A_NAME = re.compile(r"[^\w.]+")
_LONGEST_NAME = 200


@dataclass(frozen=True, slots=True)
class StoredModels:
    """The models of a database, as a source of a catalogue."""

    engine: Engine

    def revision(self) -> int:
        """Counter of the catalogue's changes, from one small query."""
        with Session(self.engine) as session:
            return revisions(session).get(_CATALOGUE, 0)

    def rows(self) -> Sequence[ModelRow]:
        """Every model, by name and quant."""
        with Session(self.engine) as session:
            return [_row(stored) for stored in store.models(session)]

    def header_xz(self, row: ModelRow) -> bytes:
        """Header of one model; raises UnknownModel where it was deleted meanwhile."""
        with Session(self.engine) as session:
            header_xz = store.model_header_xz(session, row.id)
        if header_xz is None:
            raise UnknownModel(f"{row.reference} ({row.id}) is no longer in the catalogue.", fields=("model",))
        return header_xz


def seed_builtin_models(engine: Engine) -> Changes:
    """Make the built-in models of a database those of model_db; nothing is read or locked where they are already."""
    return follow_builtin_data(
        engine,
        _CATALOGUE,
        builtin_models_digest(),
        lambda session: store.synchronise_builtin_models(session, builtin_entries()),
    )


def builtin_entries() -> Iterator[ModelEntry]:
    """Every model of model_db as a row to keep; nothing is parsed."""
    source = BuiltinModels()
    for row in source.rows():
        yield ModelEntry(
            id=row.id,
            name=row.name,
            quant=row.quant,
            architecture=row.architecture,
            tensor_count=row.tensor_count,
            tensor_data_bytes=row.tensor_data_bytes,
            parameters=row.parameters,
            active_parameters=row.active_parameters,
            trained_context_tokens=row.trained_context_tokens,
            header_xz=source.header_xz(row),
        )


def user_entry(model: Model, *, fallback_name: str, source: str | None = None) -> ModelEntry:
    """A model that a user brings as a row to keep, under the name in its header or else `fallback_name`.

    Its header is kept without the elements of long arrays. Raises `Unsupported` for an architecture nothing
    could be planned for, `UnreadableModel` for a header without tensors or with senseless metadata.
    """
    facts = model_facts(model)
    if model.quant is None:
        raise UnreadableModel("The header has no tensors, so it is no model (a part of a split one, or a vocabulary).")
    return ModelEntry(
        id=model.id,
        name=_slug(model.name or "") or _slug(fallback_name) or model.architecture,
        quant=model.quant,
        architecture=model.architecture,
        tensor_count=len(model.tensors),
        tensor_data_bytes=facts.tensor_data_bytes,
        parameters=facts.parameters,
        active_parameters=facts.active_parameters,
        trained_context_tokens=facts.trained_context_tokens,
        header_xz=lzma.compress(write_header(model)),
        source=source,
    )


def _slug(name: str) -> str:
    return _NOT_IN_A_NAME.sub("-", name.casefold()).strip("-._")[:_LONGEST_NAME]


def _row(stored: StoredModel) -> ModelRow:
    return ModelRow(
        name=stored.name,
        quant=stored.quant,
        id=stored.id,
        architecture=stored.architecture,
        tensor_count=stored.tensor_count,
        tensor_data_bytes=stored.tensor_data_bytes,
        parameters=stored.parameters,
        active_parameters=stored.active_parameters,
        trained_context_tokens=stored.trained_context_tokens,
    )
