"""The catalogues that names are looked up in: the built-in files, or a database followed as it changes."""

import time
from threading import Lock
from typing import TYPE_CHECKING, Protocol

from service.catalog.builtin_models import BuiltinModels
from service.catalog.gpus import GpuCatalog, builtin_gpus
from service.catalog.models import ModelCatalog

if TYPE_CHECKING:
    from sqlalchemy import Engine


class Catalogues(Protocol):
    """Cards and models as they are at this moment."""

    @property
    def gpus(self) -> GpuCatalog:
        """The cards."""

    @property
    def models(self) -> ModelCatalog:
        """The models."""


class BuiltinCatalogues:
    """The data that ships with the package, without a database."""

    def __init__(self) -> None:
        self._models = ModelCatalog(BuiltinModels())

    @property
    def gpus(self) -> GpuCatalog:
        """The cards of hardware_db."""
        return builtin_gpus()

    @property
    def models(self) -> ModelCatalog:
        """The models of model_db."""
        return self._models


class StoredCatalogues:
    """A database's catalogues in memory; whether they changed is asked at most every `refresh_s` seconds."""

    def __init__(self, database: "Engine", refresh_s: float) -> None:
        from service.catalog.stored_gpus import StoredGpus  # noqa: PLC0415 - a plan from files needs no database
        from service.catalog.stored_models import StoredModels  # noqa: PLC0415

        self._refresh_s = refresh_s
        self._gpu_source = StoredGpus(database)
        self._gpu_revision = self._gpu_source.revision()
        self._gpus = GpuCatalog(self._gpu_source.records())
        self._models = ModelCatalog(StoredModels(database))
        self._due_s = time.monotonic() + refresh_s
        self._refreshing = Lock()

    @property
    def gpus(self) -> GpuCatalog:
        """The cards, as of the latest look."""
        self._refresh()
        return self._gpus

    @property
    def models(self) -> ModelCatalog:
        """The models, as of the latest look."""
        self._refresh()
        return self._models

    def _refresh(self) -> None:
        """Look for changes where that is due; whoever comes while another looks uses what there is."""
        if time.monotonic() < self._due_s or not self._refreshing.acquire(blocking=False):
            return
        try:
            revision = self._gpu_source.revision()
            if revision != self._gpu_revision:
                self._gpus = GpuCatalog(self._gpu_source.records())
                self._gpu_revision = revision
            self._models.refresh()
            self._due_s = time.monotonic() + self._refresh_s
        finally:
            self._refreshing.release()
