"""Filling the catalogues of a database with the data that ships with this release."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sqlalchemy import Engine

from service.catalog.stored_gpus import seed_builtin_gpus
from service.catalog.stored_models import seed_builtin_models
from service.store.revisions import Changes

_SEEDS: tuple[tuple[str, Callable[[Engine], Changes]], ...] = (
    ("cards", seed_builtin_gpus),
    ("models", seed_builtin_models),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seeded:
    """What seeding one catalogue changed."""

    catalogue: str
    changes: Changes


def seed_catalogues(engine: Engine) -> Iterator[Seeded]:
    """Seed one catalogue after the other and tell of each as it is done; nothing is done twice.

    Rows that users entered or edited stay as they are. The work happens as the iterator is consumed.
    """
    for catalogue, seed in _SEEDS:
        yield Seeded(catalogue=catalogue, changes=seed(engine))
