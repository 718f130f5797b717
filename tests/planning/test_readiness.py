"""Readiness, part by part, around upgrades."""

import pytest
from sqlalchemy import Engine, text

from service.planning.catalogues import StoredCatalogues
from service.planning.planner import Planner
from service.planning.readiness import READY, readiness
from service.store.migrations import known_revisions

PARTS = {"database": READY, "migrations": READY, "catalogue": READY}


def states(database: Engine) -> dict[str, str]:
    """What is said of each part of a service on this database."""
    found = readiness(Planner(StoredCatalogues(database, refresh_s=60)), database)
    return {str(part): state for part, state in found.items()}


def at_revision(database: Engine, revision: str) -> Engine:
    """The database as one that is at another migration."""
    with database.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = :revision"), {"revision": revision})
    return database


def test_every_part_is_ready(seeded_database: Engine) -> None:
    """A migrated and seeded database has all that is needed."""
    assert states(seeded_database) == PARTS


@pytest.mark.parametrize("revision", known_revisions()[1:])
def test_an_earlier_database_is_not_ready(seeded_database: Engine, revision: str) -> None:
    """Before rigfit migrate has run the new release is not sent anything."""
    said = states(at_revision(seeded_database, revision))
    assert said.pop("migrations").endswith("run rigfit migrate.")
    assert set(said.values()) == {READY}


def test_a_later_database_keeps_the_release_before_ready(seeded_database: Engine) -> None:
    """While replicas are replaced the old ones go on with a database that is migrated already."""
    assert states(at_revision(seeded_database, "of_a_later_release")) == PARTS
