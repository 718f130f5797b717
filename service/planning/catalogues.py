"""The catalogues that names are looked up in: the built-in files, or a database followed as it changes."""

import logging
import time
from dataclasses import dataclass
from threading import Lock, Thread
from typing import TYPE_CHECKING, Protocol

from service.catalog.builtin_models import BuiltinModels
from service.catalog.gpus import GpuCatalog, builtin_gpus
from service.catalog.models import ModelCatalog

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from service.planning.measurements.learning import MeasuredSpeeds


log = logging.getLogger(__name__)

# a look at the revisions takes milliseconds
_LONGEST_WAIT_S = 1.0
# a moment that is always past
_AT_ONCE_S = 0.0


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

    @property
    def is_away(self) -> bool:
        """Whether what holds them did not answer when last asked, so that they may be old."""

    @property
    def is_builtin(self) -> bool:
        """Whether they are those that ship with the service in the place of others, which never answered."""

    @property
    def is_at_hand(self) -> bool:
        """Whether they can be asked without waiting for anything."""

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

    @property
    def is_away(self) -> bool:
        """Files are there."""
        return False

    @property
    def is_builtin(self) -> bool:
        """They stand for nothing else."""
        return False

    @property
    def is_at_hand(self) -> bool:
        """Nothing is waited for."""
        return True

    def changed(self) -> None:
        """Nothing here changes."""


class StoredCatalogues:
    """A database's catalogues in memory, read at the first use; asked at most every `refresh_s` whether they changed.

    While the database is away they stay as they were, or are the built-in ones where it never answered. Raises
    SQLAlchemyError where it answers but has no tables.
    """

    def __init__(self, database: "Engine", refresh_s: float) -> None:
        self._database = database
        self._refresh_s = refresh_s
        self._loaded: _Loaded | None = None
        self._due_s = _AT_ONCE_S
        self._is_away = False
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

    @property
    def is_away(self) -> bool:
        """Whether the latest look found no database."""
        return self._is_away

    @property
    def is_builtin(self) -> bool:
        """Whether no look has found a database yet."""
        return self._loaded is not None and self._loaded.is_builtin

    @property
    def is_at_hand(self) -> bool:
        """Whether no look at the database is due."""
        return self._loaded is not None and time.monotonic() < self._due_s

    def changed(self) -> None:
        """Look at the next question, which no look that began before will do for."""
        self._due_s = _AT_ONCE_S

    def _current(self) -> "_Loaded":
        """Read or refresh where that is due; whoever comes while another refreshes uses what there is.

        After a change of this process's own he waits, and looks himself where that look began before the change.

        A refresh happens beside the question that it is due at, which waits for it only so long: a database that does
        not answer holds up none, and one that was away is not waited for at all.
        """
        loaded = self._loaded
        if loaded is not None and time.monotonic() < self._due_s:
            return loaded
        if loaded is None:
            self._working.acquire()
            return self._look()
        if not self._working.acquire(timeout=_LONGEST_WAIT_S if self._due_s == _AT_ONCE_S else 0):
            return loaded
        if time.monotonic() < self._due_s:
            self._working.release()
            return self._loaded or loaded
        looking = Thread(target=self._look_aside, name="catalogues", daemon=True)
        looking.start()
        if not self._is_away:
            looking.join(_LONGEST_WAIT_S)
        return self._loaded or loaded

    def _look(self) -> "_Loaded":
        """Take over what the database has; whoever calls holds the lock, which is released."""
        # from its beginning: what this process changes meanwhile is looked for again
        self._due_s = time.monotonic() + self._refresh_s
        try:
            self._loaded = self._read(self._loaded)
            return self._loaded
        finally:
            self._working.release()

    def _look_aside(self) -> None:
        try:
            self._look()
        except Exception:
            log.exception("the catalogues could not be read; plans go on with those known so far")

    def _read(self, loaded: "_Loaded | None") -> "_Loaded":
        from sqlalchemy.exc import SQLAlchemyError  # noqa: PLC0415 - a plan from files needs no database

        from service.store.outages import is_outage  # noqa: PLC0415

        try:
            if loaded is None or loaded.is_builtin:
                read = _Loaded.of(self._database)
            else:
                read = loaded.refreshed(self._database)
        except SQLAlchemyError as error:
            if not is_outage(error):
                raise
            if not self._is_away:
                log.warning("the database does not answer; plans go on with the cards and models known so far")
            self._is_away = True
            return loaded or _Loaded.of_files()
        if self._is_away:
            log.info("the database answers again")
        self._is_away = False
        return read


@dataclass(frozen=True, slots=True)
class _Loaded:
    """Both catalogues and the measurements as they were read, with the revisions that they had."""

    gpus: GpuCatalog
    gpu_revision: int
    models: ModelCatalog
    measured: "MeasuredSpeeds | None"
    measured_revision: int
    is_builtin: bool = False

    @classmethod
    def of_files(cls) -> "_Loaded":
        """What ships with the service."""
        files = BuiltinCatalogues()
        return cls(files.gpus, 0, files.models, files.measured, 0, is_builtin=True)

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
