"""API keys: their digests, what they may do, and when they were used."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import insert, select, update
from sqlalchemy.orm import Session

from service.store.audit import record_change
from service.store.tables import ApiKeyTable, JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyEntry:
    """A key to keep: `digest` is the SHA-256 of its secret, which is kept nowhere."""

    id: str
    name: str
    digest: str
    scopes: tuple[str, ...]
    expires_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredKey(KeyEntry):
    """A key as it is kept; a revoked one stays, so that its name never means another."""

    created_at: datetime
    revoked_at: datetime | None
    last_used_at: datetime | None

    def is_valid(self, now: datetime) -> bool:
        """Whether it opens anything at this moment."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


def keys(session: Session) -> list[StoredKey]:
    """Read every key, revoked and expired ones too, the oldest first."""
    return [_stored(row) for row in session.scalars(select(ApiKeyTable).order_by(ApiKeyTable.created_at))]


def key_named(session: Session, name: str) -> StoredKey | None:
    """Read one key by its name."""
    row = session.scalar(select(ApiKeyTable).where(ApiKeyTable.name == name))
    return None if row is None else _stored(row)


def keep_key(session: Session, entry: KeyEntry) -> None:
    """Insert a key; raises IntegrityError where its name is taken."""
    values = {"id": entry.id, "name": entry.name, "digest": entry.digest, "scopes": list(entry.scopes)}
    session.execute(insert(ApiKeyTable).values(**values, expires_at=entry.expires_at))
    record_change(session, "key", entry.name, before=None, after=_facts(entry))


def revoke_key(session: Session, key: KeyEntry, at: datetime) -> None:
    """Let a key open nothing from now on; one that was revoked stays revoked since then."""
    valid = update(ApiKeyTable).where(ApiKeyTable.id == key.id, ApiKeyTable.revoked_at.is_(None))
    if session.execute(valid.values(revoked_at=at).returning(ApiKeyTable.id)).scalar() is not None:
        record_change(session, "key", key.name, before=_facts(key), after=None)


def note_uses(session: Session, used_at: Mapping[str, datetime]) -> None:
    """Note when keys were last used, by id; an earlier moment never replaces a later one."""
    for key_id, moment in used_at.items():
        earlier = ApiKeyTable.last_used_at.is_(None) | (ApiKeyTable.last_used_at < moment)
        session.execute(update(ApiKeyTable).where(ApiKeyTable.id == key_id, earlier).values(last_used_at=moment))


def _facts(key: KeyEntry) -> JsonObject:
    expires_at = None if key.expires_at is None else key.expires_at.isoformat()
    return {"scopes": list(key.scopes), "expires_at": expires_at}


def _stored(row: ApiKeyTable) -> StoredKey:
    scopes: Sequence[str] = row.scopes
    return StoredKey(
        id=row.id,
        name=row.name,
        digest=row.digest,
        scopes=tuple(scopes),
        expires_at=row.expires_at,
        created_at=row.created_at,
        revoked_at=row.revoked_at,
        last_used_at=row.last_used_at,
    )
