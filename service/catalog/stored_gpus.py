"""Cards in the database: seeded from hardware_db, and those that users add."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from service.builtin import builtin_folder
from service.catalog.gpu_records import GpuRecord, builtin_gpu_facts, record_of
from service.store import gpus as store
from service.store.gpus import GpuEntry
from service.store.revisions import Catalogue, Changes, follow_builtin_data, revisions

_CATALOGUE: Catalogue = "gpus"


@dataclass(frozen=True, slots=True)
class StoredGpus:
    """The cards of a database, as a source of a catalogue."""

    engine: Engine

    def revision(self) -> int:
        """Counter of the catalogue's changes, from one small query."""
        with Session(self.engine) as session:
            return revisions(session).get(_CATALOGUE, 0)

    def records(self) -> Iterator[GpuRecord]:
        """Every card, by slug."""
        with Session(self.engine) as session:
            stored = store.gpus(session)
        return (record_of(card.record) for card in stored)


def seed_builtin_gpus(engine: Engine) -> Changes:
    """Make the built-in cards of a database those of hardware_db; nothing is parsed where they are already."""
    return follow_builtin_data(
        engine,
        _CATALOGUE,
        builtin_gpus_digest(),
        lambda session: store.synchronise_builtin_gpus(session, builtin_entries()),
    )


def builtin_entries() -> Iterator[GpuEntry]:
    """Every card of hardware_db as a row to keep."""
    return (GpuEntry(slug=facts["slug"], record=facts) for facts in builtin_gpu_facts())


@cache
def builtin_gpus_digest() -> str:
    """SHA-256 of the family files of hardware_db, by name."""
    digest = hashlib.sha256()
    for path in sorted((builtin_folder("hardware_db") / "gpus").glob("*.toml")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()
