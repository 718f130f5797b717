"""The catalogue of models: manifests addressed by the digest of their content, and aliases of them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import delete, insert, select
from sqlalchemy.orm import Session

from service.store.audit import record_change, record_seed
from service.store.database import insert_where_absent
from service.store.revisions import Changes, move_revision
from service.store.tables import JsonObject, ModelAliasTable, ModelTable, Origin

_LABELS = (
    "name",
    "quant",
    "architecture",
    "tensor_count",
    "tensor_data_bytes",
    "parameters",
    "active_parameters",
    "trained_context_tokens",
    "source",
    "kind",
    "format",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelEntry:
    """A model to keep; `header_xz` is its manifest in its `format`, xz-compressed."""

    id: str
    name: str
    quant: str
    architecture: str
    tensor_count: int
    tensor_data_bytes: int
    parameters: int
    active_parameters: int
    trained_context_tokens: int
    header_xz: bytes
    source: str | None = None
    kind: str = "model"
    format: str = "gguf"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredModel:
    """A model as lists show it, without its manifest."""

    id: str
    name: str
    quant: str
    architecture: str
    tensor_count: int
    tensor_data_bytes: int
    parameters: int
    active_parameters: int
    trained_context_tokens: int
    origin: str
    source: str | None
    added_at: datetime
    kind: str
    format: str


def models(session: Session) -> list[StoredModel]:
    """Read the whole catalogue without manifests, by name and quant."""
    query = select(ModelTable).order_by(ModelTable.name, ModelTable.quant, ModelTable.id)
    return [_stored(row) for row in session.scalars(query)]


def model(session: Session, model_id: str) -> StoredModel | None:
    """Read one model without its manifest."""
    row = session.get(ModelTable, model_id, populate_existing=True)
    return None if row is None else _stored(row)


def model_header_xz(session: Session, model_id: str) -> bytes | None:
    """Read the compressed manifest of one model."""
    return session.scalar(select(ModelTable.header_xz).where(ModelTable.id == model_id))


def keep_user_model(session: Session, entry: ModelEntry) -> StoredModel:
    """Insert a model in the user's name; where the same content is there already, that row is the answer."""
    held = model(session, entry.id)
    if held is not None:
        return held
    insert_where_absent(session, ModelTable, _values(entry, origin="user"))
    move_revision(session, "models")
    kept = _stored(session.get_one(ModelTable, entry.id))
    record_change(session, "model", entry.id, before=None, after=_facts(kept))
    return kept


def rename_model(session: Session, model_id: str, name: str) -> None:
    """Give a model another name; its content and its quant stay."""
    held = session.get_one(ModelTable, model_id, populate_existing=True)
    before = _facts(_stored(held))
    held.name = name
    session.flush()
    record_change(session, "model", model_id, before=before, after=_facts(_stored(held)))
    move_revision(session, "models")


def remove_model(session: Session, model_id: str) -> None:
    """Delete a model with its aliases."""
    for alias in aliases_of(session, model_id):
        remove_alias(session, alias)
    held = session.get_one(ModelTable, model_id, populate_existing=True)
    record_change(session, "model", model_id, before=_facts(_stored(held)), after=None)
    session.delete(held)
    move_revision(session, "models")


def aliases(session: Session) -> Mapping[str, str]:
    """Read every alias, in lower case, with the id of its model."""
    rows = session.execute(select(ModelAliasTable.alias, ModelAliasTable.model_id))
    return {row.alias: row.model_id for row in rows}


def keep_alias(session: Session, alias: str, model_id: str) -> str:
    """Give a model another name, unless it is taken; the id that it stands for now."""
    key = alias.lower()
    if session.get(ModelAliasTable, key) is None:
        insert_where_absent(session, ModelAliasTable, {"alias": key, "model_id": model_id})
        record_change(session, "alias", key, before=None, after={"model": model_id})
        move_revision(session, "models")
    return session.get_one(ModelAliasTable, key, populate_existing=True).model_id


def aliases_of(session: Session, model_id: str) -> list[str]:
    """Read the aliases of one model, sorted."""
    query = select(ModelAliasTable.alias).where(ModelAliasTable.model_id == model_id).order_by(ModelAliasTable.alias)
    return list(session.scalars(query))


def remove_alias(session: Session, alias: str) -> None:
    """Take a name from a model."""
    held = session.get_one(ModelAliasTable, alias, populate_existing=True)
    record_change(session, "alias", alias, before={"model": held.model_id}, after=None)
    session.delete(held)
    move_revision(session, "models")


def synchronise_builtin_models(session: Session, entries: Iterable[ModelEntry]) -> Changes:
    """Make the built-in part of the catalogue equal to `entries`; rows of users stay as they are.

    Content never changes under an id, so only what stands beside it is compared.
    """
    held = {row.id: row for row in models(session)}
    wanted = {entry.id: entry for entry in entries}
    builtin = {row.id: row for row in held.values() if row.origin == "builtin"}
    new = [entry for entry in wanted.values() if entry.id not in held]
    changed = [
        wanted[row.id] for row in builtin.values() if row.id in wanted and _labels(wanted[row.id]) != _labels(row)
    ]
    removed = [model_id for model_id in builtin if model_id not in wanted]
    gone = [*removed, *(entry.id for entry in changed)]
    if gone:
        session.execute(delete(ModelTable).where(ModelTable.id.in_(gone)))
    rows = [_values(entry, origin="builtin") for entry in (*new, *changed)]
    if rows:
        session.execute(insert(ModelTable), rows)
    record_seed(session, "model", inserted=len(new), changed=[entry.id for entry in changed], removed=removed)
    return Changes(inserted=len(new), changed=len(changed), removed=len(removed))


def _labels(row: ModelEntry | StoredModel) -> tuple[object, ...]:
    return tuple(getattr(row, label) for label in _LABELS)


def _facts(row: StoredModel) -> JsonObject:
    """What the audit trail says of a model: all that stands beside its content."""
    return {label: getattr(row, label) for label in _LABELS}


def _stored(row: ModelTable) -> StoredModel:
    return StoredModel(
        id=row.id,
        name=row.name,
        quant=row.quant,
        architecture=row.architecture,
        tensor_count=row.tensor_count,
        tensor_data_bytes=row.tensor_data_bytes,
        parameters=row.parameters,
        active_parameters=row.active_parameters,
        trained_context_tokens=row.trained_context_tokens,
        origin=row.origin,
        source=row.source,
        added_at=row.added_at,
        kind=row.kind,
        format=row.format,
    )


def _values(entry: ModelEntry, *, origin: Origin) -> dict[str, object]:
    return {
        "id": entry.id,
        "name": entry.name,
        "quant": entry.quant,
        "architecture": entry.architecture,
        "tensor_count": entry.tensor_count,
        "tensor_data_bytes": entry.tensor_data_bytes,
        "parameters": entry.parameters,
        "active_parameters": entry.active_parameters,
        "trained_context_tokens": entry.trained_context_tokens,
        "header_xz": entry.header_xz,
        "origin": origin,
        "source": entry.source,
        "kind": entry.kind,
        "format": entry.format,
    }
