"""What the API shows of a card: every value with its unit, its source, and whether it was verified there."""

import json

from service.catalog.gpu_documents import UNVERIFIED_SOURCE, gpu_document, gpu_summary, search_gpus
from service.catalog.gpu_records import iter_gpu_records
from service.catalog.gpus import builtin_gpus

RECORDS = {record.slug: record for record in iter_gpu_records()}


def test_a_value_says_whether_it_was_verified_and_where() -> None:
    """Verified values name the page they were read on, the others say that they were not."""
    document = gpu_document(RECORDS["rtx-3090"])
    assert document["values"]["vram_bytes"] == {
        "value": 24 * 1024**3,
        "verified": True,
        "source": RECORDS["rtx-3090"].source_url,
    }
    assert document["values"]["nvlink"] == {"value": "bridge", "verified": False, "source": UNVERIFIED_SOURCE}
    assert document["as_of"] == RECORDS["rtx-3090"].as_of


def test_every_unverified_value_is_shown_as_such() -> None:
    """No card's document shows more verified values than its file."""
    for record in RECORDS.values():
        values = gpu_document(record)["values"]
        shown = {field for field, value in values.items() if not value["verified"]}
        assert shown == record.unverified - {"vendor"}, record.slug


def test_every_card_can_be_shown() -> None:
    """Documents are JSON, and say how much memory is usable or what has to be stated first."""
    for record in RECORDS.values():
        document = json.loads(json.dumps(gpu_document(record)))
        usable = document["usable_memory"]
        assert usable["basis"]
        assert usable["backend"] in document["backends"]
        assert (usable["usable_bytes"] is None) == (record.vram_bytes is None), record.slug
        assert gpu_summary(record)["slug"] == record.slug


def test_searching_finds_every_word() -> None:
    """Words may stand in slug, name, vendor or alias; no text finds all."""
    catalog = builtin_gpus()
    assert [record.slug for record in search_gpus(catalog, "3090")] == ["rtx-3090", "rtx-3090-ti"]
    assert [record.slug for record in search_gpus(catalog, "strix")] == ["ryzen-ai-max-385", "ryzen-ai-max-395"]
    assert {record.vendor for record in search_gpus(catalog, "apple")} == {"Apple"}
    assert len(search_gpus(catalog)) == 237
    assert search_gpus(catalog, "banana") == []
