"""What a failure of the database is taken for."""

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from service.store.database import shown_url
from service.store.outages import is_outage, lacks_tables
from tests.databases import opened
from tests.planning.outages import take_away


def failure_of(database: Engine, statement: str) -> SQLAlchemyError:
    """What a statement fails with."""
    with pytest.raises(SQLAlchemyError) as failed, database.begin() as connection:
        connection.execute(text(statement))
    return failed.value


def test_tables_that_are_missing_are_no_outage(empty_database: Engine) -> None:
    """A database that was never migrated answers; waiting would not help."""
    failure = failure_of(empty_database, "SELECT id FROM saved_plans")
    assert lacks_tables(failure)
    assert not is_outage(failure)


def test_columns_that_are_missing_are_no_outage(database: Engine) -> None:
    """Nor does a database of an earlier release, whose tables lack something."""
    failure = failure_of(database, "SELECT of_a_later_release FROM saved_plans")
    assert lacks_tables(failure)
    assert not is_outage(failure)


def test_a_database_that_is_away_is_an_outage(database: Engine) -> None:
    """Whether it went away in the middle or was not there at first."""
    bring_back = take_away(database)
    try:
        failure = failure_of(database, "SELECT id FROM saved_plans")
    finally:
        bring_back()
    assert is_outage(failure)
    assert not lacks_tables(failure)


def test_a_fault_of_ours_is_no_outage(database: Engine) -> None:
    """What would fail again is not to be tried again, nor called the database's fault."""
    failure = failure_of(database, "INSERT INTO gpus (slug) VALUES (NULL)")
    assert isinstance(failure, DBAPIError)
    assert not is_outage(failure)
    assert not lacks_tables(failure)


def test_values_are_not_in_what_is_logged(database: Engine) -> None:
    """A failure's first line, which is logged, names no value, an address no password, wherever it stands."""
    with pytest.raises(DBAPIError) as failed, database.begin() as connection:
        connection.execute(text("INSERT INTO gpus (slug) VALUES (:slug), (NULL)"), {"slug": "sekret"})
    first, _, others = str(failed.value).partition("\n")
    assert "sekret" not in first
    assert "parameters hidden" in others
    with opened("postgresql://rigfit:sekret@localhost/rigfit?password=sekret&sslpassword=sekret&host=db") as engine:
        assert shown_url(engine) == "postgresql+psycopg://rigfit:***@localhost/rigfit?host=db"
