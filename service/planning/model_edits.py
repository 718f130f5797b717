"""Models that users rename, alias and remove, each in one transaction with its entries in the audit trail."""

from dataclasses import asdict

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from service.catalog.model_rows import ModelRow
from service.catalog.stored_models import model_row
from service.contract.imports import ModelEdit
from service.core.problems import Contradiction, UnknownModel
from service.planning.catalogues import Catalogues
from service.planning.imports import check_alias
from service.planning.preconditions import check_if_match, entity_tag
from service.store.database import transaction
from service.store.models import aliases_of, keep_alias, model, remove_alias, remove_model, rename_model
from service.store.revisions import lock_catalogue


def model_tag(row: ModelRow) -> str:
    """Entity tag of a model: of what stands beside its content, which its id is the digest of."""
    return entity_tag(asdict(row))


def change_model(
    catalogues: Catalogues, database: Engine, reference: str, edit: ModelEdit, *, if_match: str | None
) -> str:
    """Give a model another name, or the aliases it has from now on; its id.

    Raises UnknownModel, InvalidRequest for an alias that is none, Contradiction for a name that is taken or of a
    built-in model, PreconditionRequired and PreconditionFailed.
    """
    row = catalogues.models.resolve(reference).row
    wanted = None if edit.aliases is None else dict.fromkeys(alias.lower() for alias in edit.aliases)
    for alias in wanted or ():
        _check_free(alias, row, catalogues)
    with transaction(database) as session:
        lock_catalogue(session, "models")
        held = _held(session, row.id, if_match)
        if edit.name is not None and edit.name != held.name:
            _check_name(edit.name, held, catalogues)
            rename_model(session, held.id, edit.name)
        if wanted is not None:
            _set_aliases(session, held.id, tuple(wanted))
    catalogues.changed()
    return row.id


def remove_user_model(catalogues: Catalogues, database: Engine, reference: str, *, if_match: str | None) -> None:
    """Remove a model that was brought in, with its aliases; plans of it that were kept stay.

    Raises UnknownModel, Contradiction for a built-in model, PreconditionRequired and PreconditionFailed.
    """
    row = catalogues.models.resolve(reference).row
    with transaction(database) as session:
        lock_catalogue(session, "models")
        held = _held(session, row.id, if_match)
        if held.is_builtin:
            raise Contradiction(f"{held.reference} ships with the service and cannot be removed.")
        remove_model(session, held.id)
    catalogues.changed()


def _held(session: Session, model_id: str, if_match: str | None) -> ModelRow:
    """The model as the database has it now, which is the version that was read."""
    stored = model(session, model_id)
    if stored is None:
        raise UnknownModel(f"No model has the id {model_id!r} any more.")
    held = model_row(stored, tuple(aliases_of(session, model_id)))
    check_if_match(if_match, model_tag(held))
    return held


def _check_free(alias: str, row: ModelRow, catalogues: Catalogues) -> None:
    """Raise unless the alias is a name, and nobody's but this model's."""
    if alias not in row.aliases:
        check_alias(alias, catalogues)


def _check_name(name: str, held: ModelRow, catalogues: Catalogues) -> None:
    if held.is_builtin:
        raise Contradiction(f"{held.reference} ships with the service and keeps its name: give it an alias.")
    taken = catalogues.models.named(f"{name}:{held.quant}")
    if taken is not None and taken.id != held.id:
        raise Contradiction(f"{name}:{held.quant} is the name of another model, {taken.id}.", fields=("name",))


def _set_aliases(session: Session, model_id: str, wanted: tuple[str, ...]) -> None:
    held = aliases_of(session, model_id)
    for alias in held:
        if alias not in wanted:
            remove_alias(session, alias)
    session.flush()
    for alias in wanted:
        if keep_alias(session, alias, model_id) != model_id:
            raise Contradiction(f"{alias!r} is an alias of another model already.", fields=("aliases",))
