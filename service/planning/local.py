"""The planner of the command line: built-in data first, the database only for names that it alone may know."""

from functools import cache
from pathlib import Path

from service.contract.plan import Plan
from service.contract.request import PlanRequest
from service.core.problems import UnknownGpu, UnknownModel
from service.planning.catalogues import BuiltinCatalogues, Catalogues, StoredCatalogues
from service.planning.model_hosts import RemoteModels
from service.planning.planner import Planner


class LocalPlanner:
    """Plans from files; what is not found there is looked up in the database of the settings."""

    def __init__(self) -> None:
        self._builtin = Planner(BuiltinCatalogues(), may_read_files=True, remote=remote_models)

    def plan(self, request: PlanRequest) -> Plan:
        """Answer one question; raises as `Planner.plan` does."""
        try:
            return self._builtin.plan(request)
        except (UnknownGpu, UnknownModel):
            stored = stored_catalogues()
            if stored is None:
                raise
            return Planner(stored, may_read_files=True, remote=remote_models).plan(request)


@cache
def local_planner() -> LocalPlanner:
    """The planner of this process."""
    return LocalPlanner()


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
    stored = StoredCatalogues(open_database(chosen.database_url), chosen.catalogue_refresh_s)
    try:
        return stored if stored.gpus.names.records else None
    except SQLAlchemyError:
        return None
