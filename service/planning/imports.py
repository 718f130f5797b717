"""Models that users bring: read, then kept in one transaction, or not at all."""

import re
from dataclasses import dataclass

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from service.catalog.stored_models import user_entry
from service.contract.imports import ImportRequest, RepositoryListing, RepositoryModel
from service.core.checkpoints import Checkpoint
from service.core.problems import Contradiction, InvalidRequest
from service.core.types import Model
from service.planning.catalogues import Catalogues
from service.planning.model_hosts import RemoteModels
from service.planning.outages import DatabaseUnavailable
from service.remote.fetching import no_progress
from service.remote.gguf_files import Progress
from service.remote.listing import Listing
from service.remote.references import Reference, read_reference, read_repository
from service.retrying import attempts
from service.store.database import transaction
from service.store.models import ModelEntry, keep_alias, keep_user_model, model
from service.store.outages import is_outage
from service.store.revisions import lock_catalogue

_ALIAS = re.compile(r"[\w][\w./:@-]{0,199}", re.ASCII)
_KEEP_ATTEMPTS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A model that is in the catalogue now; is_new: it was not before."""

    id: str
    is_new: bool


def check_alias(alias: str | None, catalogues: Catalogues) -> None:
    """Raise InvalidRequest for an alias that is no name, before anything is fetched for it."""
    if alias is None:
        return
    if not _ALIAS.fullmatch(alias) or alias.lower().startswith("sha256:"):
        raise InvalidRequest(
            f"{alias[:80]!r} is no alias: letters, digits and . _ - / : @, at most 200.", fields=("alias",)
        )
    taken = catalogues.models.named(alias)
    if taken is not None and alias.lower() not in taken.aliases:
        raise Contradiction(f"{alias!r} is the name of another model, {taken.reference}.", fields=("alias",))


def import_remote(
    remote: RemoteModels,
    catalogues: Catalogues,
    database: Engine,
    request: ImportRequest,
    *,
    authorization: str | None = None,
    progress: Progress = no_progress,
) -> Kept | RepositoryListing:
    """Fetch what is asked for and keep it; a repository alone is listed and nothing is kept. Raises PlanProblem."""
    check_alias(request.alias, catalogues)
    found = remote.find(_reference(request), authorization=authorization, progress=progress)
    if isinstance(found, Listing):
        return _listing(found)
    return keep_model(catalogues, database, found.content, name=found.name, source=found.source, alias=request.alias)


def _reference(request: ImportRequest) -> Reference:
    if request.url is not None:
        return read_reference(request.url)
    return read_repository(request.repo or "", request.file, request.revision)


def _listing(found: Listing) -> RepositoryListing:
    return RepositoryListing(
        repo=found.repository.repository,
        files=[
            RepositoryModel(
                file=model.file, size_bytes=model.size_bytes, parts=model.parts, missing=list(model.missing)
            )
            for model in found.models
        ],
    )


def keep_model(
    catalogues: Catalogues,
    database: Engine,
    content: Model | Checkpoint,
    *,
    name: str,
    source: str | None,
    alias: str | None = None,
) -> Kept:
    """Keep what was read, and its alias; the same content is kept once, under the name it had first.

    Everything is written in one transaction, which is tried again where the database goes away meanwhile. Raises
    Contradiction where the alias stands for another model, DatabaseUnavailable, and as `user_entry` does.
    """
    check_alias(alias, catalogues)
    entry = user_entry(content, fallback_name=name, source=source)
    try:
        for context in attempts(is_outage, most=_KEEP_ATTEMPTS, first_wait_s=0.1, longest_wait_s=3.0):
            with context:
                kept = _keep(database, entry, alias)
                catalogues.changed()
                return kept
    except SQLAlchemyError as error:
        if not is_outage(error):
            raise
        raise DatabaseUnavailable("The database does not answer, so nothing was kept. Try again later.") from None
    raise AssertionError("the last attempt either returns or raises")


def _keep(database: Engine, entry: ModelEntry, alias: str | None) -> Kept:
    with transaction(database) as session:
        # the first statement: of two who bring the same model at once, one brings it and the other finds it
        lock_catalogue(session, "models")
        is_new = model(session, entry.id) is None
        kept = keep_user_model(session, entry)
        if alias is not None and keep_alias(session, alias, kept.id) != kept.id:
            raise Contradiction(f"{alias!r} is an alias of another model already.", fields=("alias",))
        return Kept(id=kept.id, is_new=is_new)
