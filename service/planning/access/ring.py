"""The keys of a database in memory: a request with a key costs no query."""

import hmac
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import Final

import structlog
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from service.planning.access.key_text import read_key
from service.store.database import transaction
from service.store.keys import StoredKey, keys, note_uses

log = structlog.get_logger(__name__)

FRESH_S: Final = 0.5
"""How long the keys are not read again: a revoked one opens nothing a second later, on every replica."""
_NOTED_EVERY: Final = timedelta(minutes=1)
_NOBODY = "0" * 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who showed a valid key."""

    key_id: str
    name: str
    scopes: frozenset[str]


class KeyRing:
    """The keys as of half a second ago; safe to share between threads.

    While the database is away, the keys that were read last stay valid.
    """

    def __init__(
        self, database: Engine, *, fresh_s: float = FRESH_S, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._database = database
        self._fresh_s = fresh_s
        self._now = now
        self._keys: Mapping[str, StoredKey] | None = None
        self._due_s = 0.0
        self._used_at: dict[str, datetime] = {}
        self._working = Lock()

    @property
    def was_read(self) -> bool:
        """Whether the keys are known at all."""
        return self._keys is not None

    @property
    def is_fresh(self) -> bool:
        """Whether `holder` and `is_empty` may be asked without `refresh` before."""
        return self._keys is not None and time.monotonic() < self._due_s

    @property
    def is_empty(self) -> bool:
        """Whether no key was ever made; revoking the last one does not make it so."""
        return not self._keys

    def holder(self, text: str) -> Holder | None:
        """Who shows this key, None for no key, an unknown, an expired and a revoked one."""
        shown = read_key(text)
        if shown is None:
            return None
        key, now = (self._keys or {}).get(shown.id), self._now()
        # a digest is compared in any case and in constant time, so that the answer's time tells nothing
        is_right = hmac.compare_digest(_NOBODY if key is None else key.digest, shown.digest)
        if key is None or not is_right or not key.is_valid(now):
            return None
        self._used_at[key.id] = now
        return Holder(key_id=key.id, name=key.name, scopes=frozenset(key.scopes))

    def refresh(self) -> None:
        """Read the keys where that is due; who comes while another reads them uses those there are.

        Raises SQLAlchemyError where they were never read and cannot be.
        """
        if not self._working.acquire(blocking=self._keys is None):
            return
        try:
            if not self.is_fresh:
                self._read()
        finally:
            self._working.release()

    def _read(self) -> None:
        try:
            with Session(self._database) as session:
                self._keys = {key.id: key for key in keys(session)}
            self._note_uses()
        except SQLAlchemyError as failure:
            if self._keys is None:
                raise
            log.warning("keys could not be read again", error=str(failure))
        self._due_s = time.monotonic() + self._fresh_s

    def _note_uses(self) -> None:
        """Write when keys were last used, each at most once a minute."""
        held, used = self._keys or {}, dict(self._used_at)
        due = {key_id: at for key_id, at in used.items() if key_id in held and _is_due(held[key_id], at)}
        if due:
            with transaction(self._database) as session:
                note_uses(session, due)


def _is_due(key: StoredKey, used_at: datetime) -> bool:
    return key.last_used_at is None or used_at - key.last_used_at >= _NOTED_EVERY
