"""The catalogue of cards follows the built-in data and never touches what a user entered."""

from sqlalchemy import Engine

from service.store.database import transaction
from service.store.gpus import GpuEntry, gpu, gpus, keep_user_gpu, synchronise_builtin_gpus
from service.store.revisions import Changes, revisions

RTX_3090 = GpuEntry(slug="rtx-3090", record={"name": "GeForce RTX 3090", "tdp_w": 350})
A100_40 = GpuEntry(slug="a100-40gb", record={"name": "A100 40 GB"})
A100_80 = GpuEntry(slug="a100-80gb", record={"name": "A100 80 GB"})
HOT_3090 = GpuEntry(slug="rtx-3090", record={"name": "GeForce RTX 3090", "tdp_w": 420})


def synchronise(database: Engine, *entries: GpuEntry) -> Changes:
    with transaction(database) as session:
        return synchronise_builtin_gpus(session, entries)


def test_builtin_cards_come_back_as_they_were_given(database: Engine) -> None:
    """A card's record and origin survive the database."""
    assert synchronise(database, RTX_3090, A100_80) == Changes(inserted=2)
    with transaction(database) as session:
        assert [(card.slug, card.record, card.origin, card.version) for card in gpus(session)] == [
            ("a100-80gb", A100_80.record, "builtin", 1),
            ("rtx-3090", RTX_3090.record, "builtin", 1),
        ]


def test_synchronising_the_same_data_again_changes_nothing(database: Engine) -> None:
    """Seeding is idempotent, whatever the order of the entries and their keys."""
    synchronise(database, RTX_3090, A100_80)
    swapped = GpuEntry(slug="rtx-3090", record={"tdp_w": 350, "name": "GeForce RTX 3090"})
    assert not synchronise(database, A100_80, swapped)


def test_changed_and_dropped_builtin_cards_follow_the_data(database: Engine) -> None:
    """A changed record replaces the old one with a higher version; a card that left the data leaves the catalogue."""
    synchronise(database, RTX_3090, A100_80)
    assert synchronise(database, HOT_3090, A100_40) == Changes(inserted=1, changed=1, removed=1)
    with transaction(database) as session:
        hot = gpu(session, "rtx-3090")
        assert hot is not None
        assert (hot.record["tdp_w"], hot.version) == (420, 2)
        assert gpu(session, "a100-80gb") is None


def test_card_edited_by_a_user_is_never_overwritten(database: Engine) -> None:
    """A user's version of a built-in card stays, whatever the data says later."""
    synchronise(database, RTX_3090)
    with transaction(database) as session:
        edited = keep_user_gpu(session, HOT_3090)
    assert (edited.origin, edited.version) == ("user", 2)
    assert not synchronise(database, RTX_3090)
    assert not synchronise(database)
    with transaction(database) as session:
        assert gpus(session) == [edited]


def test_unknown_card_is_none(database: Engine) -> None:
    """A slug without a row gives nothing."""
    with transaction(database) as session:
        assert gpu(session, "rtx-9999") is None


def test_keeping_a_card_moves_the_revision(database: Engine) -> None:
    """A process that holds a copy of the catalogue sees that it changed."""
    with transaction(database) as session:
        before = revisions(session)
        card = keep_user_gpu(session, A100_80)
        after = revisions(session)
    assert card.updated_at.tzinfo is not None
    assert (after["gpus"], after["models"]) == (before["gpus"] + 1, before["models"])
