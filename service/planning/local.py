"""The planner of the command line: built-in data first, the database for what it alone may know.

That is names that users gave, and what they measured.
"""

import os
from contextlib import closing
from functools import cache, partial
from pathlib import Path

from service.builtin import embedded_database_path
from service.contract.plan import Plan
from service.contract.request import PlanRequest
from service.core.problems import UnknownGpu, UnknownModel
from service.planning.catalogues import BuiltinCatalogues, Catalogues, StoredCatalogues
from service.planning.kept_graphs import keep_graphs
from service.planning.model_hosts import RemoteModels
from service.planning.planner import Planner


class LocalPlanner:
    """Plans from files, or from the database of the settings once it holds measurements.

    What is not found in files is looked up in that database.
    """

    def __init__(self) -> None:
        keep_graphs_as_set()
        measured = stored_catalogues() if holds_measurements() else None
        catalogues = BuiltinCatalogues() if measured is None else measured
        self._builtin = Planner(catalogues, may_read_files=True, remote=remote_models)

    def plan(self, request: PlanRequest, *, alone: bool = False) -> Plan:
        """Answer one question; raises as `Planner.plan` does."""
        try:
            return self._builtin.plan(request, alone=alone)
        except (UnknownGpu, UnknownModel):
            stored = stored_catalogues()
            if stored is None:
                raise
            return Planner(stored, may_read_files=True, remote=remote_models).plan(request, alone=alone)


@cache
def local_planner() -> LocalPlanner:
    """The planner of this process."""
    return LocalPlanner()


def keep_graphs_as_set() -> None:
    """Keep compute graphs as the settings say, which are read only where any are made."""
    if Path(".env").is_file() or any(name in os.environ for name in ("RIGFIT_CACHE_FOLDER", "RIGFIT_CACHE_BYTES")):
        from service.settings import settings  # noqa: PLC0415 - most plans need no settings

        keep_graphs(settings().cache_folder, settings().cache_bytes)
    else:
        keep_graphs()


def holds_measurements() -> bool:
    """Whether the database may hold measurements: asked without the machinery of databases where it is a file."""
    path = embedded_database_path()
    if "RIGFIT_DATABASE_URL" in os.environ or Path(".env").is_file():
        from sqlalchemy import make_url  # noqa: PLC0415 - most plans need no database

        from service.settings import settings  # noqa: PLC0415 - most plans need no settings

        address = make_url(settings().database_url)
        if address.get_backend_name() != "sqlite":
            return True
        path = Path(address.database or "")
    if not path.is_file():
        return False
    import sqlite3  # noqa: PLC0415 - only where there is a file

    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            found = database.execute("SELECT revision FROM catalogues WHERE name = 'measurements'").fetchone()
    except sqlite3.Error:
        return False
    return found is not None and found[0] > 0


@cache
def catalogue_planner() -> Planner:
    """The planner of this process for questions about the whole catalogue: the database's where there is one."""
    keep_graphs_as_set()
    return Planner(catalogues(), may_read_files=True, remote=remote_models)


@cache
def remote_models() -> RemoteModels:
    """What fetches models of other hosts as the settings allow."""
    from service.settings import settings  # noqa: PLC0415 - most plans need no settings

    return RemoteModels(settings())


def catalogues() -> Catalogues:
    """The database's catalogues where there is one, else the built-in ones."""
    return stored_catalogues() or BuiltinCatalogues()


@cache
def stored_catalogues() -> StoredCatalogues | None:
    """The catalogues of the database of the settings, None where it was never made or does not answer."""
    from sqlalchemy import make_url  # noqa: PLC0415 - most plans need no database
    from sqlalchemy.exc import SQLAlchemyError  # noqa: PLC0415

    from service.settings import settings  # noqa: PLC0415
    from service.store.database import open_database  # noqa: PLC0415

    chosen = settings()
    address = make_url(chosen.database_url)
    if address.get_backend_name() == "sqlite" and not Path(address.database or "").is_file():
        return None
    database = open_database(chosen.database_url)
    if hasattr(os, "register_at_fork"):
        # processes that answer lines must not share this one's connections
        os.register_at_fork(after_in_child=partial(database.dispose, close=False))
    stored = StoredCatalogues(database, chosen.catalogue_refresh_s)
    try:
        return stored if stored.gpus.names.records else None
    except SQLAlchemyError:
        return None
