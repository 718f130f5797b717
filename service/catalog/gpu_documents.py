"""Cards as the API shows them: every value with its unit in the name, its source, and whether it was verified there."""

from dataclasses import fields
from typing import Any

from service.catalog.gpu_capacity import card_capacity
from service.catalog.gpu_records import GpuRecord, vendors
from service.catalog.gpus import GpuCatalog, backend_of
from service.catalog.idle_memory import idle_memory
from service.core.problems import InvalidRequest

# what a record says about itself, not about the card
DESCRIPTIVE = frozenset({"slug", "name", "aliases", "vendor", "source_url", "as_of", "notes", "unverified"})
UNVERIFIED_SOURCE = "general knowledge, not re-read at source_url"


def gpu_summary(record: GpuRecord) -> dict[str, Any]:
    """One line of the list of cards."""
    return {
        "slug": record.slug,
        "name": record.name,
        "vendor": record.vendor,
        "segment": record.segment,
        "vram_bytes": record.vram_bytes,
        "memory_bandwidth_bytes_per_s": record.memory_bandwidth_bytes_per_s,
        "tdp_w": record.tdp_w,
        "unverified": sorted(record.unverified),
    }


def gpu_document(record: GpuRecord) -> dict[str, Any]:
    """Everything known of a card: values with provenance, and how much of its memory a program can use."""
    return {
        "slug": record.slug,
        "name": record.name,
        "aliases": list(record.aliases),
        "vendor": record.vendor,
        "source_url": record.source_url,
        "as_of": record.as_of,
        "notes": record.notes,
        "values": {field.name: _value(record, field.name) for field in fields(record) if field.name not in DESCRIPTIVE},
        "backends": list(vendors()[record.vendor].backends),
        "usable_memory": _usable_memory(record),
    }


def search_gpus(catalog: GpuCatalog, text: str | None = None) -> list[GpuRecord]:
    """Cards whose names contain every word of `text`, by slug; all of them without a text."""
    wanted = (text or "").casefold().split()
    return [
        record
        for slug, record in sorted(catalog.names.records.items())
        if all(word in " ".join((slug, record.name, record.vendor, *record.aliases)).casefold() for word in wanted)
    ]


def _value(record: GpuRecord, field: str) -> dict[str, Any]:
    value = getattr(record, field)
    provenance = record.provenance(field)
    return {
        "value": list(value) if isinstance(value, tuple) else value,
        "verified": provenance.verified,
        "source": provenance.source if provenance.verified else UNVERIFIED_SOURCE,
    }


def _usable_memory(record: GpuRecord) -> dict[str, Any]:
    """Capacity of one device with the vendor's own backend, or what has to be stated first."""
    backend = backend_of(record)
    try:
        capacity = card_capacity(record, backend, idle=idle_memory().get((record.slug, backend)))
    except InvalidRequest as problem:
        return {"backend": backend, "total_bytes": None, "usable_bytes": None, "basis": problem.detail}
    return {
        "backend": backend,
        "total_bytes": capacity.total_bytes,
        "usable_bytes": capacity.usable_bytes,
        "basis": capacity.basis,
    }
