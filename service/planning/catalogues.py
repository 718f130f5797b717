"""The catalogues that names are looked up in: the built-in files, or a database followed as it changes."""

import time
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Protocol

from service.catalog.builtin_models import BuiltinModels
from service.catalog.gpus import GpuCatalog, builtin_gpus
from service.catalog.models import ModelCatalog

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from service.planning.measurements.learning import MeasuredSpeeds


class Catalogues(Protocol):
    """Cards and models as they are at this moment."""

    @property
    def gpus(self) -> GpuCatalog:
        """The cards."""

    @property
    def models(self) -> ModelCatalog:
        """The models."""

    @property
    def measured(self) -> "MeasuredSpeeds | None":
        """The measurements that predictions learn from, None where there are none."""

    def changed(self) -> None:
        """Take over what this process changed before the next question."""


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

    @property
    def measured(self) -> None:
        """Files hold no measurements."""
        return

    def changed(self) -> None:
        """Nothing here changes."""


class StoredCatalogues:
    """A database's catalogues in memory, read at the first use; asked at most every `refresh_s` whether they changed.

    Raises SQLAlchemyError where the database does not answer or has no tables.
    """

    def __init__(self, database: "Engine", refresh_s: float) -> None:
        self._database = database
        self._refresh_s = refresh_s
        self._loaded: _Loaded | None = None
        self._due_s = 0.0
        self._working = Lock()

    @property
    def gpus(self) -> GpuCatalog:
        """The cards, as of the latest look."""
        return self._current().gpus

    @property
    def models(self) -> ModelCatalog:
        """The models, as of the latest look."""
        return self._current().models

    @property
    def measured(self) -> "MeasuredSpeeds | None":
        """The measurements, as of the latest look."""
        return self._current().measured

    def changed(self) -> None:
        """Look at the next question."""
        self._due_s = 0.0

    def _current(self) -> "_Loaded":
        """Read or refresh where that is due; whoever comes while another refreshes uses what there is."""
        loaded = self._loaded
        if loaded is not None and time.monotonic() < self._due_s:
            return loaded
        if not self._working.acquire(blocking=loaded is None):
            return loaded or self._current()
        try:
            if self._loaded is None:
                self._loaded = _Loaded.of(self._database)
            elif time.monotonic() >= self._due_s:
                self._loaded = self._loaded.refreshed(self._database)
            self._due_s = time.monotonic() + self._refresh_s
            return self._loaded
        finally:
            self._working.release()


@dataclass(frozen=True, slots=True)
class _Loaded:
    """Both catalogues and the measurements as they were read, with the revisions that they had."""

    gpus: GpuCatalog
    gpu_revision: int
    models: ModelCatalog
    measured: "MeasuredSpeeds | None"
    measured_revision: int

    @classmethod
    def of(cls, database: "Engine") -> "_Loaded":
        from service.catalog.stored_gpus import StoredGpus  # noqa: PLC0415 - a plan from files needs no database
        from service.catalog.stored_models import StoredModels  # noqa: PLC0415
        from service.planning.measurements.stored import measurements_revision, read_measured  # noqa: PLC0415

        source = StoredGpus(database)
        revision, measured_revision = source.revision(), measurements_revision(database)
        return cls(
            GpuCatalog(source.records()),
            revision,
            ModelCatalog(StoredModels(database)),
            read_measured(database, measured_revision),
            measured_revision,
        )

    def refreshed(self, database: "Engine") -> "_Loaded":
        from service.catalog.stored_gpus import StoredGpus  # noqa: PLC0415
        from service.planning.measurements.stored import measurements_revision, read_measured  # noqa: PLC0415

        self.models.refresh()
        source = StoredGpus(database)
        revision, measured_revision = source.revision(), measurements_revision(database)
        if (revision, measured_revision) == (self.gpu_revision, self.measured_revision):
            return self
        is_same = measured_revision == self.measured_revision
        return _Loaded(
            self.gpus if revision == self.gpu_revision else GpuCatalog(source.records()),
            revision,
            self.models,
            self.measured if is_same else read_measured(database, measured_revision),
            measured_revision,
        )
