"""What llama.cpp was seen to report on idle devices (hardware_db/idle_memory.toml)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import tomli

from service.builtin import builtin_folder
from service.core.types import Backend
from service.core.unified_memory import UnifiedPolicy
from service.core.units import GIB, MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleMemory:
    """Memory of an idle device with its own memory; total_bytes None where only the free part was printed."""

    slug: str
    backend: Backend
    free_bytes: int
    total_bytes: int | None
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedMemory:
    """Memory that a system was seen to let its GPU use."""

    policy: UnifiedPolicy
    ram_bytes: int
    usable_bytes: int
    source: str


@cache
def idle_memory() -> Mapping[tuple[str, Backend], IdleMemory]:
    """Idle devices by slug and backend."""
    return {(row.slug, row.backend): row for row in _idle_rows(_observations()["idle"])}


@cache
def shared_memory() -> tuple[SharedMemory, ...]:
    """Systems seen with shared memory."""
    return tuple(
        SharedMemory(
            policy=row["policy"],
            ram_bytes=row["ram_gib"] * GIB,
            usable_bytes=row["usable_mib"] * MIB,
            source=row["source"],
        )
        for row in _observations()["shared"]
    )


def _idle_rows(rows: Iterable[Mapping[str, Any]]) -> Iterable[IdleMemory]:
    for row in rows:
        total_mib = row.get("total_mib")
        yield IdleMemory(
            slug=row["slug"],
            backend=row["backend"],
            free_bytes=row["free_mib"] * MIB,
            total_bytes=None if total_mib is None else total_mib * MIB,
            source=row["source"],
        )


@cache
def _observations() -> Mapping[str, Any]:
    return tomli.loads((builtin_folder("hardware_db") / "idle_memory.toml").read_text("utf-8"))
