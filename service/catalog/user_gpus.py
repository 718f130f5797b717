"""Cards that users add or edit: facts as hardware_db would have them, with names that mean no other card."""

from collections.abc import Iterable

from service.catalog.gpu_names import GpuNames
from service.catalog.gpu_records import Facts, GpuRecord, builtin_gpu_facts, record_of
from service.core.problems import Contradiction, UnknownGpu
from service.store.gpus import GpuEntry


def check_names(record: GpuRecord, others: Iterable[GpuRecord]) -> None:
    """Raise Contradiction where a name of the card could mean another, or takes another's name from it."""
    names = GpuNames([record, *(other for other in others if other.slug != record.slug)])
    for called in (record.slug, record.name, *record.aliases):
        if _meant(names, called) != record.slug:
            raise Contradiction(
                f"{called!r} could mean another card of the catalogue: give it another name.", fields=("name",)
            )
    taken = [other for slug, other in names.records.items() if _meant(names, other.name) != slug]
    if taken:
        raise Contradiction(
            f"{record.name!r} could be meant where {taken[0].name} ({taken[0].slug}) is called: give it another name.",
            fields=("name",),
        )


def builtin_entry(slug: str) -> GpuEntry | None:
    """The card of hardware_db with this slug, None where it has none."""
    found: Iterable[Facts] = builtin_gpu_facts()
    return next((GpuEntry(slug=slug, record=dict(facts)) for facts in found if facts["slug"] == slug), None)


def entry_of(facts: Facts) -> tuple[GpuEntry, GpuRecord]:
    """Facts as a row to keep, and as they are planned with."""
    return GpuEntry(slug=facts["slug"], record=dict(facts)), record_of(facts)


def _meant(names: GpuNames, called: str) -> str | None:
    try:
        return names.resolve(called).record.slug
    except UnknownGpu:
        return None
