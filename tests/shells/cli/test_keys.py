"""`rigfit keys`."""

import os
import subprocess
from collections.abc import Mapping

import pytest

from service.planning.access.key_text import read_key
from tests.databases import Databases, migrate_and_seed
from tests.servers import COMMAND


@pytest.fixture
def environment(sqlite: Databases) -> Mapping[str, str]:
    """Environment with a seeded database of one test's own."""
    return os.environ | {"RIGFIT_DATABASE_URL": sqlite.copy_of("seeded", migrate_and_seed), "COLUMNS": "120"}


def run(*arguments: str, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run([COMMAND, "keys", *arguments], env=environment, check=False, capture_output=True, text=True)


def test_a_key_is_shown_once_and_alone(environment: Mapping[str, str]) -> None:
    """Standard output is the key, so that it can be piped; the list shows everything about it but that."""
    made = run("create", "ci", "--scope", "models", "--scope", "cards", "--days", "90", environment=environment)
    assert made.returncode == 0, made.stderr
    (key,) = made.stdout.splitlines()
    assert read_key(key) is not None
    assert "ci may models, cards, until 20" in made.stderr
    listed = run("list", environment=environment).stdout
    assert listed.splitlines()[1].split()[:4] == ["ci", "models,", "cards", "valid"]
    assert key.split("_", 2)[2] not in listed


def test_a_revoked_key_stays_in_the_list(environment: Mapping[str, str]) -> None:
    """Its name is not given again."""
    run("create", "ci", "--scope", "read", environment=environment)
    assert run("revoke", "ci", environment=environment).returncode == 0
    assert "revoked 20" in run("list", environment=environment).stdout
    again = run("create", "ci", "--scope", "read", environment=environment)
    assert (again.returncode, again.stdout) == (2, "")
    assert "names are given once" in again.stderr


def test_what_is_refused(environment: Mapping[str, str]) -> None:
    """A mistake is a sentence and makes no key."""
    for arguments, said in (
        (("create", "ci", "--scope", "everything"), "it may have read, cards, models, measurements, audit"),
        (("revoke", "nobody"), "rigfit keys list"),
    ):
        ran = run(*arguments, environment=environment)
        assert (ran.returncode, ran.stdout) == (2, "")
        assert said in " ".join(ran.stderr.split())
