"""Keys of a database, held in memory by every process."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from service.core.problems import Contradiction, InvalidRequest
from service.planning.access.key_text import new_key
from service.planning.access.keys import listed_keys, make_key, revoke_key
from service.planning.access.ring import FRESH_S, KeyRing
from service.store.database import open_database
from tests.databases import opened


def ring_of(database: Engine, now: datetime | None = None) -> KeyRing:
    """A ring that was read once and is read again whenever it is asked to."""
    ring = KeyRing(database, fresh_s=0, now=lambda: now or datetime.now(UTC))
    ring.refresh()
    return ring


def test_a_key_opens_with_its_name_and_scopes(database: Engine) -> None:
    """Who shows it is known by the name it was made for."""
    made = make_key(database, "ci", ["models", "cards", "models"])
    holder = ring_of(database).holder(made.text)
    assert holder is not None
    assert (holder.name, set(holder.scopes)) == ("ci", {"models", "cards"})


def test_only_a_digest_is_kept(database: Engine) -> None:
    """Whoever reads the database cannot ask with what is there."""
    made = make_key(database, "ci", ["models"])
    secret = made.text.split("_", 2)[2]
    assert secret not in repr(listed_keys(database))
    assert secret not in repr(made.entry)


def test_what_opens_nothing(database: Engine) -> None:
    """Another secret under a known id, a key nobody made, and none."""
    made = make_key(database, "ci", ["models"])
    ring = ring_of(database)
    for text in (made.text[:-1] + ("A" if made.text[-1] != "A" else "B"), new_key(), "", made.entry.digest):
        assert ring.holder(text) is None


def test_a_key_ends_on_its_day(database: Engine) -> None:
    """It opens until that moment and not from it on."""
    made = make_key(database, "guest", ["read"], days=30)
    ends_at = made.entry.expires_at
    assert ends_at is not None
    assert abs(ends_at - datetime.now(UTC) - timedelta(days=30)) < timedelta(minutes=1)
    assert ring_of(database, ends_at - timedelta(seconds=1)).holder(made.text) is not None
    assert ring_of(database, ends_at).holder(made.text) is None


def test_a_revoked_key_opens_nothing_within_a_second(database: Engine) -> None:
    """A process that holds it in memory notices, and its name is never given again."""
    made = make_key(database, "ci", ["models"])
    ring = ring_of(database)
    revoke_key(database, "ci")
    assert not ring.is_fresh
    ring.refresh()
    assert FRESH_S < 1
    assert ring.holder(made.text) is None
    assert not ring.is_empty
    with pytest.raises(Contradiction, match="given once"):
        make_key(database, "ci", ["models"])


def test_uses_are_noted(database: Engine) -> None:
    """When a key was last used is in the list, and written at most once a minute."""
    made = make_key(database, "ci", ["models"])
    moment = datetime(2026, 12, 1, 12, tzinfo=UTC)
    for later_s, noted_s in ((0, 0), (59, 0), (60, 60)):
        ring = ring_of(database, moment + timedelta(seconds=later_s))
        assert ring.holder(made.text) is not None
        ring.refresh()
        assert listed_keys(database)[0].last_used_at == moment + timedelta(seconds=noted_s)


def test_keys_stay_valid_while_the_database_is_away(database: Engine) -> None:
    """What was read last holds, so that those who may ask go on asking."""
    made = make_key(database, "ci", ["read"])
    ring = ring_of(database)
    ring._database = open_database("postgresql://nobody@127.0.0.1:1/none")
    ring.refresh()
    assert ring.holder(made.text) is not None


def test_without_keys_ever_read_nothing_is_guessed(tmp_path: Path) -> None:
    """A database without the table is an error, not an empty ring that lets everyone in."""
    with opened(f"sqlite:///{tmp_path / 'empty.sqlite3'}") as database, pytest.raises(SQLAlchemyError):
        KeyRing(database).refresh()


def test_names_that_are_none(database: Engine) -> None:
    """A name is a word, so that lists and the audit trail are clear."""
    for name in ("", " ci", "c i", "é", "x" * 81, "-x", "a\n"):
        with pytest.raises(InvalidRequest, match="no name"):
            make_key(database, name, ["read"])


def test_scopes_that_are_none(database: Engine) -> None:
    """A scope nobody checks is refused, and so are none and a life of no days."""
    for scopes, days in ((["write"], None), ([], None), (["read"], 0)):
        with pytest.raises(InvalidRequest):
            make_key(database, "ci", scopes, days=days)
    with pytest.raises(InvalidRequest, match="rigfit keys list"):
        revoke_key(database, "nobody")
