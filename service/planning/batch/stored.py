"""The planner of a process that answers for a server: the database's catalogues, as the server's own."""

from service.planning.catalogues import StoredCatalogues
from service.planning.model_hosts import RemoteModels
from service.planning.planner import Planner
from service.settings import Settings
from service.store.database import open_database


def stored_planner(settings: Settings) -> Planner:
    """A planner on the database of the settings, with one connection."""
    database = open_database(settings.database_url, connections=1)
    remote = RemoteModels(settings)
    return Planner(StoredCatalogues(database, settings.catalogue_refresh_s), remote=lambda: remote)
