"""Models in the database: seeded from model_db, and those that users add."""

import lzma
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import cast

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from service.catalog.builtin_models import BuiltinModels, builtin_by_id, builtin_models_digest
from service.catalog.model_rows import ModelFormat, ModelRow
from service.checkpoints.documents import write_checkpoint
from service.core.checkpoints import Checkpoint
from service.core.model_facts import ModelFacts, model_facts
from service.core.model_kinds import ModelKind, model_kind
from service.core.problems import UnknownModel, UnreadableModel
from service.core.types import Model
from service.gguf.writer import write_header
from service.store import models as store
from service.store.models import ModelEntry, StoredModel
from service.store.revisions import Catalogue, Changes, follow_builtin_data, revisions

_CATALOGUE: Catalogue = "models"
_NOT_IN_A_NAME = re.compile(r"[^\w.]+")
_LONGEST_NAME = 200
_LONGEST_QUANT = 40
_LONGEST_ARCHITECTURE = 80
_NO_QUANT = "none"
# little memory: a dictionary of 2 MiB, where the usual one takes ninety times as much to fill
_COMPRESSION = 2


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
            aliases = _by_model(store.aliases(session))
            return [model_row(stored, aliases.get(stored.id, ())) for stored in store.models(session)]

    def header_xz(self, row: ModelRow) -> bytes:
        """Manifest of one model; raises UnknownModel where it was deleted meanwhile.

        Content that ships with this release is read from its file, which needs no database to answer.
        """
        builtin = builtin_by_id().get(row.id)
        if builtin is not None:
            return BuiltinModels().header_xz(builtin)
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


def user_entry(content: Model | Checkpoint, *, fallback_name: str, source: str | None = None) -> ModelEntry:
    """A model that a user brings as a row to keep, under the name in its header or else `fallback_name`.

    Its header is kept without the elements of long arrays. Raises `Unsupported` for an architecture nothing
    could be planned for, `UnreadableModel` for a model without tensors or with senseless metadata.
    """
    if isinstance(content, Checkpoint):
        return _checkpoint_entry(content, fallback_name, source)
    kind = model_kind(content)
    facts = model_facts(content) if kind == "model" else _facts_of_other(content)
    if kind == "model" and content.quant is None:
        raise UnreadableModel("The header has no tensors, so it is no model (a part of a split one, or a vocabulary).")
    name = _slug(content.name or "") or _slug(fallback_name) or content.architecture
    return ModelEntry(
        id=content.id,
        name=name if kind in ("model", "diffusion") else _marked(name, kind),
        quant=content.quant or _NO_QUANT,
        architecture=content.architecture[:_LONGEST_ARCHITECTURE],
        tensor_count=len(content.tensors),
        tensor_data_bytes=facts.tensor_data_bytes,
        parameters=facts.parameters,
        active_parameters=facts.active_parameters,
        trained_context_tokens=facts.trained_context_tokens,
        header_xz=lzma.compress(write_header(content), preset=_COMPRESSION),
        source=source,
        kind=kind,
    )


def _facts_of_other(model: Model) -> ModelFacts:
    """Sizes of what llama.cpp does not run as a language model."""
    parameters = sum(prod(tensor.shape) for tensor in model.tensors)
    return ModelFacts(
        parameters=parameters,
        active_parameters=parameters,
        tensor_data_bytes=sum(tensor.size_bytes for tensor in model.tensors),
        trained_context_tokens=0,
    )


def _checkpoint_entry(checkpoint: Checkpoint, fallback_name: str, source: str | None) -> ModelEntry:
    return ModelEntry(
        id=checkpoint.id,
        name=_marked(_slug(fallback_name) or "model", "checkpoint"),
        quant=_slug(checkpoint.quant)[:_LONGEST_QUANT] or _NO_QUANT,
        architecture=checkpoint.architecture[:_LONGEST_ARCHITECTURE],
        tensor_count=len(checkpoint.tensors),
        tensor_data_bytes=checkpoint.tensor_data_bytes,
        parameters=checkpoint.parameters,
        active_parameters=checkpoint.parameters,
        trained_context_tokens=checkpoint.trained_context_tokens,
        header_xz=lzma.compress(write_checkpoint(checkpoint), preset=_COMPRESSION),
        source=source,
        format="safetensors",
    )


def _marked(name: str, mark: str) -> str:
    """A name that tells a file from the language model it belongs to, which often has the same."""
    return name if mark in re.split(r"[-._]", name) else f"{name[: _LONGEST_NAME - len(mark) - 1]}-{mark}"


def _slug(name: str) -> str:
    return _NOT_IN_A_NAME.sub("-", name.casefold()).strip("-._")[:_LONGEST_NAME]


def _by_model(aliases: Mapping[str, str]) -> Mapping[str, tuple[str, ...]]:
    by_model: dict[str, tuple[str, ...]] = {}
    for alias, model_id in sorted(aliases.items()):
        by_model[model_id] = (*by_model.get(model_id, ()), alias)
    return by_model


def model_row(stored: StoredModel, aliases: tuple[str, ...] = ()) -> ModelRow:
    """A stored model as the catalogue lists it."""
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
        kind=cast("ModelKind", stored.kind),
        format=cast("ModelFormat", stored.format),
        aliases=aliases,
        is_builtin=stored.origin == "builtin",
        source=stored.source,
    )
