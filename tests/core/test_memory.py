"""The verdict and the search for the largest context."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.memory import (
    CONTEXT_STEP_TOKENS,
    Need,
    context_ceiling_tokens,
    largest_context_tokens,
    shortfall_bytes,
    verdict,
)


def need(total_bytes: int, usable_bytes: int | None = 100) -> Need:
    return Need(total_bytes=total_bytes, usable_bytes=usable_bytes)


def test_headroom_is_what_is_left() -> None:
    """Headroom is usable minus needed, negative where there is too little."""
    assert need(60).headroom_bytes == 40
    assert need(130).headroom_bytes == -30


def test_headroom_of_an_unknown_size_is_unknown() -> None:
    """A device whose size nobody stated is never short."""
    assert need(60, None).headroom_bytes is None
    assert shortfall_bytes([need(10**15, None)]) == 0


def test_a_card_does_not_lend_its_headroom() -> None:
    """The shortfall adds up each device's own lack, whatever the others have left."""
    assert shortfall_bytes([need(130), need(0), need(105)]) == 35


@pytest.mark.parametrize(
    ("totals", "offloaded", "expected"),
    [
        ((100, 100), False, "fits"),
        ((100, 100), True, "fits_with_host_offload"),
        ((100, 101), False, "does_not_fit"),
        ((100, 101), True, "does_not_fit"),
    ],
)
def test_verdict(totals: tuple[int, ...], offloaded: bool, expected: str) -> None:
    """Full devices still fit; one byte more does not, with or without offload."""
    assert verdict([need(total) for total in totals], offloaded=offloaded) == expected


@st.composite
def growing_needs(draw: st.DrawFn) -> tuple[list[tuple[int, int, int, int]], int]:
    """Devices as (fixed bytes, bytes per step, step and bytes of a jump), and a usable size."""
    devices = draw(
        st.lists(
            st.tuples(st.integers(0, 10**6), st.integers(0, 5000), st.integers(0, 2000), st.integers(0, 10**6)),
            min_size=1,
            max_size=4,
        )
    )
    return devices, draw(st.integers(0, 10**7))


@given(growing_needs(), st.integers(0, 3000))
def test_largest_context_is_the_largest(needs: tuple[list[tuple[int, int, int, int]], int], top: int) -> None:
    """The search finds what looking at every context finds, also where needs jump, with a lower bound or without."""
    devices, usable_bytes = needs

    def needs_at(tokens: int) -> list[Need]:
        steps = tokens // CONTEXT_STEP_TOKENS
        return [
            need(fixed + slope * steps + (jump if steps >= at else 0), usable_bytes)
            for fixed, slope, at, jump in devices
        ]

    expected = max(
        (step for step in range(1, top + 1) if shortfall_bytes(needs_at(step * CONTEXT_STEP_TOKENS)) == 0), default=0
    )

    def least_needs_at(tokens: int) -> list[Need]:
        steps = tokens // CONTEXT_STEP_TOKENS
        return [need(fixed // 2 + slope // 2 * steps, usable_bytes) for fixed, slope, _, _ in devices]

    ceiling_tokens = top * CONTEXT_STEP_TOKENS + 17
    found = largest_context_tokens(needs_at, ceiling_tokens=ceiling_tokens)
    assert found == expected * CONTEXT_STEP_TOKENS
    assert found == largest_context_tokens(needs_at, ceiling_tokens=ceiling_tokens, least_needs_at=least_needs_at)


def test_affine_needs_take_few_looks() -> None:
    """Bytes that grow evenly are solved in four looks, not in the ten of halving."""
    looks: list[int] = []

    def needs_at(tokens: int) -> list[Need]:
        looks.append(tokens)
        return [need(10_000 + 3 * tokens, 1_000_000)]

    assert largest_context_tokens(needs_at, ceiling_tokens=10**6) == 330_000 // 256 * 256
    assert len(looks) <= 4


@pytest.mark.parametrize(
    ("trained", "streams", "asked", "expected"),
    [
        (131072, 1, None, 131072),
        (131072, 4, None, 4 * 131072),
        (131072, 1, 200_000, 200_192),
        (1000, 1, None, 768),
        (100, 1, None, 256),
    ],
)
def test_context_ceiling(trained: int, streams: int, asked: int | None, expected: int) -> None:
    """A search goes up to the trained context of every stream, or to what was asked beyond it."""
    assert context_ceiling_tokens(trained, streams, asked) == expected
