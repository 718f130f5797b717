"""Cards of requests have the very keys of hardware_db's files, and read everything that stands there."""

import json

from service.builtin import builtin_folder
from service.catalog.gpu_records import builtin_gpu_facts, record_of
from service.contract.cards import CardFacts

SCHEMA = json.loads((builtin_folder("hardware_db") / "gpu_family.schema.json").read_text("utf-8"))["$defs"]["gpu"]


def test_keys_are_those_of_the_files() -> None:
    """A card can be sent as it stands in a file, beside its family's vendor."""
    assert CardFacts.model_fields.keys() == {*SCHEMA["properties"], "vendor"}


def test_choices_are_those_of_the_files() -> None:
    """What a key may say here it may say there, and the other way round."""
    described = CardFacts.model_json_schema()["properties"]
    for key, rule in SCHEMA["properties"].items():
        if "enum" in rule:
            own = described[key].get("enum") or next(kind["enum"] for kind in described[key]["anyOf"] if "enum" in kind)
            assert own == rule["enum"], key


def test_every_shipped_card_is_read_and_means_the_same() -> None:
    """None of hardware_db is refused, and what is kept of it is planned with as the original."""
    for facts in builtin_gpu_facts():
        card = CardFacts.model_validate(facts)
        assert record_of(card.model_dump(mode="json", exclude_none=True)) == record_of(facts), facts["slug"]
