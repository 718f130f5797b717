"""Making, listing and revoking keys."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from sqlalchemy import Engine
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from service.core.problems import Contradiction, InvalidRequest
from service.planning.access.key_text import new_key, read_key
from service.planning.access.scopes import SCOPES
from service.store import keys as store
from service.store.database import transaction
from service.store.keys import KeyEntry, StoredKey

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,79}")


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeKey:
    """A key that was just made; `text` is shown now and never again."""

    text: str
    entry: KeyEntry


def make_key(database: Engine, name: str, scopes: Sequence[str], *, days: int | None = None) -> MadeKey:
    """Make a key and keep its digest; days: how long it is valid, None for ever.

    Raises InvalidRequest for a name or scope that is none, Contradiction for a name that was given before.
    """
    if not _NAME.fullmatch(name):
        raise InvalidRequest(f"{name[:80]!r} is no name of a key: letters, digits and . _ @ -, at most 80.")
    unknown = [scope for scope in scopes if scope not in SCOPES]
    if unknown or not scopes:
        said = f"{unknown[0][:80]!r} is no scope" if unknown else "A key needs a scope"
        raise InvalidRequest(f"{said}: it may have {', '.join(SCOPES)}.", suggestions=SCOPES)
    if days is not None and days < 1:
        raise InvalidRequest("A key is valid for at least one day.")
    text = new_key()
    shown = read_key(text)
    if shown is None:
        raise AssertionError("a new key can be read")
    expires_at = None if days is None else datetime.now(UTC) + timedelta(days=days)
    entry = KeyEntry(
        id=shown.id, name=name, digest=shown.digest, scopes=tuple(dict.fromkeys(scopes)), expires_at=expires_at
    )
    try:
        with transaction(database) as session:
            store.keep_key(session, entry)
    except IntegrityError:
        raise Contradiction(f"A key named {name!r} is there, or was: names are given once.") from None
    return MadeKey(text=text, entry=entry)


def listed_keys(database: Engine) -> list[StoredKey]:
    """Every key that was ever made, the oldest first."""
    with Session(database) as session:
        return store.keys(session)


def revoke_key(database: Engine, name: str) -> StoredKey:
    """Let a key open nothing any more, within a second everywhere; raises InvalidRequest for a name nobody has."""
    with transaction(database) as session:
        held = store.key_named(session, name)
        if held is None:
            raise InvalidRequest(f"No key is named {name[:80]!r}: rigfit keys list shows them.")
        store.revoke_key(session, held, datetime.now(UTC))
        return held
