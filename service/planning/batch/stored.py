"""The planner of a process that answers for a server: the database's catalogues, as the server's own."""

from service.contract.plan import Plan
from service.contract.request import PlanRequest
from service.planning.batch.answering import Unreachable
from service.planning.catalogues import StoredCatalogues
from service.planning.kept_graphs import keep_graphs
from service.planning.model_hosts import RemoteModels
from service.planning.planner import Planner
from service.settings import Settings
from service.store.database import open_database


class StoredPlans:
    """Plans from the database's catalogues alone: never from built-in ones because it was away from the beginning."""

    def __init__(self, settings: Settings) -> None:
        keep_graphs(settings.cache_folder, settings.cache_bytes)
        database = open_database(settings.database_url, connections=1)
        remote = RemoteModels(settings)
        self._catalogues = StoredCatalogues(database, settings.catalogue_refresh_s)
        self._planner = Planner(self._catalogues, remote=lambda: remote)

    def plan(self, request: PlanRequest, *, alone: bool = False) -> Plan:
        """Answer one question; raises as `Planner.plan` does, and Unreachable."""
        # a look at the cards is what reads them the first time
        _ = self._catalogues.gpus
        if self._catalogues.is_builtin:
            raise Unreachable("the database did not answer yet")
        return self._planner.plan(request, alone=alone)


def stored_planner(settings: Settings) -> Planner:
    """A planner on the database of the settings, with one connection."""
    keep_graphs(settings.cache_folder, settings.cache_bytes)
    database = open_database(settings.database_url, connections=1)
    remote = RemoteModels(settings)
    return Planner(StoredCatalogues(database, settings.catalogue_refresh_s), remote=lambda: remote)
