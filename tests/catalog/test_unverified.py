"""Every value that nobody has re-read at its source stands in one list."""

import re

from service.catalog.gpu_records import iter_gpu_records
from tests.structure.repository import ROOT


def test_unverified_values_are_listed_in_one_place() -> None:
    """The report on the hardware data names every such value of every card, and no other."""
    report = (ROOT / "benchmarks" / "hardware.md").read_text("utf-8").partition("were not re-read at their source")[2]
    cards = report.partition("\n## ")[0]
    rows = re.findall(r"^\| ([a-z0-9-]+) \| (.+) \|$", cards, re.MULTILINE)
    listed = {slug: set(values.split(", ")) for slug, values in rows}
    listed.pop("device", None)
    assert listed == {record.slug: set(record.unverified) for record in iter_gpu_records() if record.unverified}
