"""`rigfit models import`: headers of GGUF files, here or on other hosts, into the database's catalogue."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from sqlalchemy import Engine

from service.contract.imports import RepositoryListing
from service.contract.validation import validate_import
from service.core.problems import InvalidRequest
from service.planning.catalogues import StoredCatalogues
from service.planning.files import read_model_file
from service.planning.imports import Kept, import_remote, keep_model
from service.planning.model_hosts import RemoteModels
from service.settings import Settings, settings
from service.shells.cli.progress import HeaderProgress, print_listing
from service.store.database import open_database
from service.store.migrations import upgrade

LISTED_EXIT_STATUS: Final = 3
"""Nothing was imported, as a repository alone was named and listed."""


def import_models(sources: Sequence[str], *, alias: str | None, hf_token: str | None) -> None:
    """Read each header and keep it; no file is copied and no weight is downloaded.

    Raises PlanProblem; what was kept before stays.
    """
    if not sources:
        raise InvalidRequest("Name one or more GGUF files, addresses or repositories: rigfit models import SOURCE…")
    if alias is not None and len(sources) > 1:
        raise InvalidRequest("An alias stands for one model: import one at a time.")
    chosen = settings()
    database = open_database(chosen.database_url)
    try:
        upgrade(database)
        listed = [_import(source, chosen, database, alias, hf_token) for source in sources]
    finally:
        database.dispose()
    if any(listed):
        sys.exit(LISTED_EXIT_STATUS)


def _is_path(source: str) -> bool:
    """Whether a source is a file of this computer, there or not."""
    looks_like_one = source.startswith(("/", "./", "../", "~")) or (source.endswith(".gguf") and "/" not in source)
    return looks_like_one or Path(source).is_file()


def _import(source: str, chosen: Settings, database: Engine, alias: str | None, hf_token: str | None) -> bool:
    """Import one source and tell what it became; True where it was listed instead."""
    catalogues = StoredCatalogues(database, chosen.catalogue_refresh_s)
    path = Path(source)
    found: Kept | RepositoryListing
    if _is_path(source):
        found = keep_model(catalogues, database, read_model_file(path), name=path.stem, source=path.name, alias=alias)
    else:
        with HeaderProgress() as progress:
            found = import_remote(
                RemoteModels(chosen),
                catalogues,
                database,
                validate_import({"url": source, "alias": alias}),
                authorization=None if hf_token is None else f"Bearer {hf_token}",
                progress=progress.tell,
            )
    if isinstance(found, RepositoryListing):
        print_listing(found)
        return True
    row = catalogues.models.resolve(found.id).row
    kept = "" if found.is_new else "  (was there already)"
    sys.stdout.write(f"{alias or catalogues.models.reference_to(row)}  {row.id}{kept}\n")
    sys.stdout.flush()
    return False
