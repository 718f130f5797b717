"""Usable memory follows rules whose constants are recomputed here from what was observed."""

from collections.abc import Iterable
from statistics import fmean

import pytest

from service.catalog.gpu_records import GpuRecord, iter_gpu_records
from service.catalog.idle_memory import IdleMemory, idle_memory, shared_memory
from service.core.memory_capacity import (
    OVERHEADS,
    REPORTED_SHARES,
    ReportedShare,
    discrete_capacity,
    reported_bytes,
    seen_capacity,
    stated_capacity,
)
from service.core.types import Backend
from service.core.unified_memory import RULES, UnifiedPolicy, unified_capacity
from service.core.units import GIB, MIB

RECORDS = {record.slug: record for record in iter_gpu_records()}
# the policy of the kits whose own rows stand among the idle devices
JETSONS = [row for row in idle_memory().values() if RECORDS[row.slug].memory_policy == "jetson"]


def driver_bytes(record: GpuRecord) -> int:
    """Size that a card's driver reports, known or derived."""
    assert record.vram_bytes is not None
    if record.vram_reported_bytes is not None or record.vendor != "NVIDIA":
        return record.vram_reported_bytes or record.vram_bytes
    return reported_bytes(record.vram_bytes, record.memory_type, ecc=record.segment == "datacenter")[0]


def discrete_rows(backend: Backend) -> list[IdleMemory]:
    """Observations of cards with memory of their own."""
    return [row for row in idle_memory().values() if row.backend == backend and not RECORDS[row.slug].unified_memory]


@pytest.mark.parametrize("backend", OVERHEADS)
def test_the_error_of_an_overhead_is_as_stated(backend: Backend) -> None:
    """Number of devices and mean error are those of the observations."""
    rows = discrete_rows(backend)
    errors = [
        abs(discrete_capacity(driver_bytes(RECORDS[row.slug]), backend, "").usable_bytes - row.free_bytes)
        for row in rows
    ]
    assert len(rows) == OVERHEADS[backend].devices
    assert fmean(errors) == pytest.approx(OVERHEADS[backend].error_bytes, abs=2 * MIB)


def test_the_driver_s_reserve_is_the_mean_of_what_was_seen() -> None:
    """What CUDA cards report to nvidia-smi and not to programs."""
    reserves = [
        driver_bytes(RECORDS[row.slug]) - row.total_bytes
        for row in discrete_rows("cuda")
        if row.total_bytes is not None
    ]
    assert fmean(reserves) == pytest.approx(OVERHEADS["cuda"].reserve_bytes, abs=2 * MIB)


def nominal_cards(share: ReportedShare) -> Iterable[GpuRecord]:
    """Cards with both sizes that a row of `REPORTED_SHARES` is about."""
    for record in RECORDS.values():
        if record.vram_reported_bytes and not record.unified_memory and record.memory_type in share.memory_types:
            assert record.vram_bytes is not None
            inline_ecc = record.vram_reported_bytes < 0.95 * record.vram_bytes
            if inline_ecc == share.ecc:
                yield record


@pytest.mark.parametrize("share", REPORTED_SHARES, ids=lambda share: "-".join(sorted(share.memory_types)))
def test_the_reported_share_is_that_of_the_catalogue(share: ReportedShare) -> None:
    """Number of cards and mean error are those of the cards whose two sizes are known."""
    ratios = [record.vram_reported_bytes / record.vram_bytes for record in nominal_cards(share)]  # type: ignore[operator]
    assert len(ratios) == share.devices
    assert fmean(ratios) == pytest.approx(share.fraction, abs=1e-4)
    assert fmean(abs(ratio - share.fraction) for ratio in ratios) == pytest.approx(share.error, abs=1e-4)


def shared_rows(policy: UnifiedPolicy) -> list[tuple[int, int]]:
    """Observed (RAM, usable) of a policy."""
    rows = [(row.ram_bytes, row.usable_bytes) for row in shared_memory() if row.policy == policy]
    if policy == "jetson":
        rows += [(RECORDS[row.slug].vram_bytes or 0, row.free_bytes) for row in JETSONS]
    return rows


@pytest.mark.parametrize("policy", RULES)
def test_the_error_of_a_sharing_rule_is_as_stated(policy: UnifiedPolicy) -> None:
    """No observed system lies further from the rule than its stated error."""
    rows = shared_rows(policy)
    errors = [abs(unified_capacity(ram, policy, "").usable_bytes / usable - 1) for ram, usable in rows]
    assert len(rows) == RULES[policy].devices
    assert max(errors) <= RULES[policy].error
    assert max(errors) > RULES[policy].error / 4


@pytest.mark.parametrize("policy", RULES)
def test_more_memory_is_never_less_usable(policy: UnifiedPolicy) -> None:
    """A larger machine gives its GPU more, and never all of it."""
    usable = [unified_capacity(gib * GIB, policy, "").usable_bytes for gib in range(4, 600)]
    assert usable == sorted(usable)
    assert all(0 < bytes_ < gib * GIB for gib, bytes_ in enumerate(usable, start=4))


def test_a_card_of_unknown_reported_size_is_taken_like_its_kin() -> None:
    """A 24 GB card with inline ECC reports 1/16 less, one with HBM2 everything."""
    assert reported_bytes(24 * GIB, "GDDR6", ecc=True)[0] == round(24 * GIB * 0.9373)
    assert reported_bytes(24 * GIB, "GDDR6", ecc=False)[0] == round(24 * GIB * 0.9997)
    assert reported_bytes(94 * GIB, "HBM3", ecc=True)[0] == round(94 * GIB * 0.9955)
    assert reported_bytes(16 * GIB, "HBM2", ecc=True) == (16 * GIB, "the nominal size")
    assert reported_bytes(16 * GIB, None, ecc=False) == (16 * GIB, "the nominal size")


def test_an_overhead_never_makes_memory_negative() -> None:
    """A tiny card has nothing left, not less."""
    assert discrete_capacity(256 * MIB, "cuda", "").usable_bytes == 0


def test_every_basis_names_its_source() -> None:
    """What a number rests on is said in words."""
    assert "hardware_db/idle_memory.toml" in discrete_capacity(GIB * 8, "cuda", "the nominal size").basis
    assert "8.00 GiB" in discrete_capacity(GIB * 8, "rpc", "the nominal size").basis
    assert "a log" in seen_capacity(GIB, 2 * GIB, "a log").basis
    assert "request" in stated_capacity(GIB, 2 * GIB).basis
    for policy in RULES:
        assert "hardware_db/idle_memory.toml" in unified_capacity(64 * GIB, policy, "stated memory").basis
