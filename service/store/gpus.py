"""The catalogue of cards: built-in ones follow hardware_db, a user's own are never touched by it."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import orjson
from sqlalchemy import delete, insert, select
from sqlalchemy.orm import Session

from service.store.audit import record_change, record_seed
from service.store.revisions import Changes, move_revision
from service.store.tables import GpuTable, JsonObject, Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuEntry:
    """A card to keep: its facts as JSON."""

    slug: str
    record: JsonObject

    @property
    def digest(self) -> str:
        """SHA-256 of the record, independent of the order of its keys."""
        return hashlib.sha256(orjson.dumps(self.record, option=orjson.OPT_SORT_KEYS)).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredGpu:
    """A card as the catalogue holds it; `version` counts its changes."""

    slug: str
    record: JsonObject
    origin: str
    version: int
    updated_at: datetime


def gpus(session: Session) -> list[StoredGpu]:
    """Read the whole catalogue, by slug."""
    return [_stored(row) for row in session.scalars(select(GpuTable).order_by(GpuTable.slug))]


def gpu(session: Session, slug: str) -> StoredGpu | None:
    """Read one card."""
    row = session.get(GpuTable, slug, populate_existing=True)
    return None if row is None else _stored(row)


def keep_user_gpu(session: Session, entry: GpuEntry) -> StoredGpu:
    """Insert or replace a card in the user's name; a built-in one that is edited becomes the user's."""
    return _replace(session, entry, origin="user")


def restore_builtin_gpu(session: Session, entry: GpuEntry) -> StoredGpu:
    """Put the built-in card back in the place of the user's version of it."""
    return _replace(session, entry, origin="builtin")


def remove_user_gpu(session: Session, slug: str) -> None:
    """Delete a card that only the user has."""
    move_revision(session, "gpus")
    held = session.get_one(GpuTable, slug, populate_existing=True)
    record_change(session, "card", slug, before=held.record, after=None)
    _remove(session, [slug])


def _replace(session: Session, entry: GpuEntry, *, origin: Origin) -> StoredGpu:
    move_revision(session, "gpus")
    held = session.get(GpuTable, entry.slug, populate_existing=True)
    version = 0 if held is None else held.version
    record_change(session, "card", entry.slug, before=None if held is None else held.record, after=entry.record)
    _remove(session, [entry.slug])
    _insert(session, [entry], origin=origin, versions={entry.slug: version + 1})
    return _stored(session.get_one(GpuTable, entry.slug, populate_existing=True))


def synchronise_builtin_gpus(session: Session, entries: Iterable[GpuEntry]) -> Changes:
    """Make the built-in part of the catalogue equal to `entries`; rows of users stay as they are."""
    summaries = select(GpuTable.slug, GpuTable.digest, GpuTable.origin, GpuTable.version)
    held = {row.slug: row for row in session.execute(summaries)}
    wanted = {entry.slug: entry for entry in entries}
    builtin = {slug: row.digest for slug, row in held.items() if row.origin == "builtin"}
    new = [entry for slug, entry in wanted.items() if slug not in held]
    changed = [wanted[slug] for slug, digest in builtin.items() if slug in wanted and wanted[slug].digest != digest]
    removed = [slug for slug in builtin if slug not in wanted]
    _remove(session, [*removed, *(entry.slug for entry in changed)])
    versions = {entry.slug: held[entry.slug].version + 1 for entry in changed}
    _insert(session, [*new, *changed], origin="builtin", versions=versions)
    record_seed(session, "card", inserted=len(new), changed=[entry.slug for entry in changed], removed=removed)
    return Changes(inserted=len(new), changed=len(changed), removed=len(removed))


def _stored(row: GpuTable) -> StoredGpu:
    return StoredGpu(
        slug=row.slug, record=row.record, origin=row.origin, version=row.version, updated_at=row.updated_at
    )


def _remove(session: Session, slugs: Sequence[str]) -> None:
    if slugs:
        session.execute(delete(GpuTable).where(GpuTable.slug.in_(slugs)))


def _insert(session: Session, entries: Sequence[GpuEntry], *, origin: Origin, versions: Mapping[str, int]) -> None:
    """Insert in bulk: one statement, however many cards."""
    rows = [
        {
            "slug": entry.slug,
            "record": entry.record,
            "digest": entry.digest,
            "origin": origin,
            "version": versions.get(entry.slug, 1),
        }
        for entry in entries
    ]
    if rows:
        session.execute(insert(GpuTable), rows)
