"""Measurements stay as they were kept, and are found again by what they are of."""

from dataclasses import replace

from sqlalchemy import Engine

from service.store.database import transaction
from service.store.measurements import (
    Filter,
    MeasurementEntry,
    accepted_of,
    keep_measurement,
    kept_measurements,
    measurements,
    newest_used,
)

ENTRY = MeasurementEntry(
    id="mea_1",
    status="accepted",
    code="",
    reason="",
    metric="decode_tokens_per_s",
    value=140.04,
    stddev=0.28,
    engine="llama.cpp",
    backend="cuda",
    model="llama-3.1-8b:Q4_K_M",
    rig="2x rtx-3090",
    build="b8829",
    configuration="c1",
    request={"model": "llama-3.1-8b:Q4_K_M"},
    facts={"notes": []},
)
WITHHELD = replace(ENTRY, id="mea_2", status="quarantined", code="not-a-rate", value=None, configuration=None)


def kept(database: Engine, *entries: MeasurementEntry) -> list[bool]:
    with transaction(database) as session:
        return [keep_measurement(session, entry) for entry in entries]


def test_a_measurement_comes_back_as_it_was_kept(database: Engine) -> None:
    """Every column survives, a missing number included."""
    assert kept(database, ENTRY, WITHHELD) == [True, True]
    with transaction(database) as session:
        found = kept_measurements(session, ["mea_1", "mea_2", "mea_3"])
    for entry in (ENTRY, WITHHELD):
        stored = found[entry.id]
        assert all(getattr(stored, name) == getattr(entry, name) for name in MeasurementEntry.__slots__)
        assert stored.added_at.tzinfo is not None


def test_a_measurement_is_never_changed(database: Engine) -> None:
    """The same id again is known, whatever comes with it."""
    assert kept(database, ENTRY, replace(ENTRY, value=1.0)) == [True, False]
    with transaction(database) as session:
        assert kept_measurements(session, ["mea_1"])["mea_1"].value == 140.04


def test_only_accepted_ones_with_a_configuration_are_used(database: Engine) -> None:
    """What is quarantined or predicts nothing is not learned from."""
    kept(database, ENTRY, WITHHELD, replace(ENTRY, id="mea_3", configuration=None))
    with transaction(database) as session:
        assert [one.id for one in newest_used(session, 10)] == ["mea_1"]
        assert [one.id for one in accepted_of(session, "c1")] == ["mea_1"]
        assert newest_used(session, 0) == []


def test_lists_are_filtered_and_paged(database: Engine) -> None:
    """Each filter narrows, a wildcard in a name is a letter, and the count is of all pages."""
    kept(database, ENTRY, WITHHELD, replace(ENTRY, id="mea_3", rig="rtx-4090", backend="vulkan", model="qwen3-8b:Q8_0"))
    expected = {
        Filter(): 3,
        Filter(status="quarantined"): 1,
        Filter(backend="vulkan"): 1,
        Filter(gpu="RTX-3090"): 2,
        Filter(model="qwen3"): 1,
        Filter(model="q_en"): 0,
        Filter(metric="prefill_tokens_per_s"): 0,
        Filter(engine="vllm"): 0,
    }
    with transaction(database) as session:
        assert {wanted: measurements(session, wanted, limit=1, offset=0)[1] for wanted in expected} == expected
        pages = [measurements(session, Filter(), limit=2, offset=offset)[0] for offset in (0, 2)]
    assert [len(page) for page in pages] == [2, 1]
    assert len({one.id for page in pages for one in page}) == 3
