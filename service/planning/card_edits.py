"""Cards that users add, change and remove, each in one transaction with its entry in the audit trail."""

from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from service.catalog.gpu_records import GpuRecord, record_of
from service.catalog.user_gpus import builtin_entry, check_names, entry_of
from service.contract.cards import CardFacts
from service.core.problems import Contradiction, InvalidRequest, UnknownGpu
from service.planning.catalogues import Catalogues
from service.planning.preconditions import check_if_match, entity_tag
from service.store.database import transaction
from service.store.gpus import StoredGpu, gpu, gpus, keep_user_gpu, remove_user_gpu, restore_builtin_gpu
from service.store.revisions import lock_catalogue


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptCard:
    """A card that is in the catalogue now; is_new: it was not before."""

    record: GpuRecord
    is_new: bool


def card_tag(record: GpuRecord) -> str:
    """Entity tag of a card."""
    return entity_tag({**asdict(record), "unverified": sorted(record.unverified)})


def add_card(catalogues: Catalogues, database: Engine, card: CardFacts) -> KeptCard:
    """Add a card; the same one again changes nothing.

    Raises Contradiction where its slug or a name of it is another card's.
    """
    entry, record = entry_of(_facts(card))
    with transaction(database) as session:
        # the first statement: whoever edits cards waits for whoever does so already
        lock_catalogue(session, "gpus")
        held = gpu(session, entry.slug)
        if held is None:
            check_names(record, _records(session))
            keep_user_gpu(session, entry)
        elif held.record != entry.record:
            raise Contradiction(f"{entry.slug} is in the catalogue: change it with PUT /gpus/{entry.slug}.")
    catalogues.changed()
    return KeptCard(record=record, is_new=held is None)


def change_card(
    catalogues: Catalogues, database: Engine, slug: str, card: CardFacts, *, if_match: str | None
) -> GpuRecord:
    """Replace a card's facts; a built-in card becomes the user's and no release changes it any more.

    Raises UnknownGpu, InvalidRequest for another slug than the card's, PreconditionRequired and PreconditionFailed.
    """
    entry, record = entry_of(_facts(card))
    if entry.slug != slug:
        raise InvalidRequest(f"The card's slug stays {slug!r}.", fields=("slug",))
    with transaction(database) as session:
        lock_catalogue(session, "gpus")
        _held(session, slug, if_match)
        check_names(record, _records(session))
        keep_user_gpu(session, entry)
    catalogues.changed()
    return record


def remove_card(catalogues: Catalogues, database: Engine, slug: str, *, if_match: str | None) -> None:
    """Remove a user's card; where it stood in the place of a built-in one, that is there again.

    Raises UnknownGpu, Contradiction for a built-in card, PreconditionRequired and PreconditionFailed.
    """
    with transaction(database) as session:
        lock_catalogue(session, "gpus")
        held = _held(session, slug, if_match)
        if held.origin == "builtin":
            raise Contradiction(f"{slug} ships with the service and cannot be removed: change it instead.")
        builtin = builtin_entry(slug)
        if builtin is None:
            remove_user_gpu(session, slug)
        else:
            restore_builtin_gpu(session, builtin)
    catalogues.changed()


def _held(session: Session, slug: str, if_match: str | None) -> StoredGpu:
    held = gpu(session, slug)
    if held is None:
        raise UnknownGpu(f"No card has the slug {slug[:80]!r}.")
    check_if_match(if_match, card_tag(record_of(held.record)))
    return held


def _records(session: Session) -> list[GpuRecord]:
    return [record_of(stored.record) for stored in gpus(session)]


def _facts(card: CardFacts) -> dict[str, Any]:
    """As hardware_db writes them: without what is not known."""
    return card.model_dump(mode="json", exclude_none=True)
