"""Which address the allocator hands out next."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.core.engines.llamacpp.compute.pool import ChunkedPool, Pool, furthest_address, peak_of

AnyPool = Pool | ChunkedPool
REQUESTS = st.lists(st.tuples(st.booleans(), st.integers(1, 40)), max_size=60)


def test_tensors_follow_each_other_in_an_empty_pool() -> None:
    """Without gaps every tensor goes behind the last."""
    pool = Pool()
    assert [pool.alloc(128), pool.alloc(256), pool.alloc(128)] == [0, 128, 384]
    assert pool.peak_bytes == 512


def test_smallest_gap_that_fits_is_taken() -> None:
    """A gap of the right size is preferred to a larger one that comes first."""
    pool = Pool()
    for size in (512, 128, 256, 128):
        pool.alloc(size)
    pool.free(0, 512)
    pool.free(640, 256)
    assert pool.alloc(256) == 640
    assert pool.alloc(256) == 0
    assert pool.peak_bytes == 1024


def test_later_of_two_equal_gaps_is_taken() -> None:
    """Llama.cpp compares with `<=`, so the last of the smallest gaps wins."""
    pool = Pool()
    for _ in range(5):
        pool.alloc(128)
    pool.free(0, 128)
    pool.free(256, 128)
    assert pool.alloc(128) == 256


def test_what_fits_no_gap_goes_behind_everything() -> None:
    """Gaps that are too small stay, and the buffer grows."""
    pool = Pool()
    pool.alloc(128)
    pool.alloc(128)
    pool.free(0, 128)
    assert pool.alloc(256) == 256
    assert pool.peak_bytes == 512


def test_gaps_that_touch_become_one() -> None:
    """Given back in any order, neighbours join, and with the free end too."""
    pool = Pool()
    offsets = [pool.alloc(128) for _ in range(4)]
    for i in (0, 2, 1):
        pool.free(offsets[i], 128)
    assert (pool.offsets[0], pool.sizes[0]) == (0, 384)
    pool.free(offsets[3], 128)
    assert pool.offsets == [0]


def test_the_end_is_reused_without_growing() -> None:
    """The furthest address counts, not the sum of what was taken."""
    pool = Pool()
    for _ in range(10):
        pool.free(pool.alloc(1024), 1024)
    assert pool.peak_bytes == 1024


@st.composite
def lives(draw: st.DrawFn) -> tuple[list[int], dict[int, int], dict[int, int]]:
    """Events, sizes and what remains of pieces, some of which are empty."""
    events, sizes, remains, live = list[int](), dict[int, int](), dict[int, int](), list[int]()
    for piece in range(draw(st.integers(1, 60))):
        action = draw(st.sampled_from(["take", "take", "give back", "keep"])) if live else "take"
        if action == "give back":
            events.append(~live.pop(draw(st.integers(0, len(live) - 1))))
            continue
        sizes[piece] = draw(st.sampled_from([0, 0, 1, 2, 3, 5, 8]))
        if action == "keep":
            remains[piece] = live.pop(draw(st.integers(0, len(live) - 1)))
            sizes[piece] = min(sizes[piece], sizes[remains[piece]])
        events.append(piece)
        live.append(piece)
    return events, sizes, remains


@settings(max_examples=300)
@given(lives())
def test_one_loop_finds_the_furthest_address_of_a_pool(found: tuple[list[int], dict[int, int], dict[int, int]]) -> None:
    """Walked through piece by piece or in one loop, a buffer is as large, empty pieces included."""
    assert furthest_address(*found) == peak_of(Pool(), *found, {})


@pytest.mark.parametrize("pool", [Pool(), ChunkedPool(64), ChunkedPool(16)])
@given(requests=REQUESTS)
def test_no_two_tensors_share_memory(pool: AnyPool, requests: list[tuple[bool, int]]) -> None:
    """Whatever is taken and given back, live pieces never overlap."""
    live: dict[int, int] = {}
    for give_back, size in requests:
        if give_back and live:
            offset = next(iter(live))
            pool.free(offset, live.pop(offset))
        else:
            offset = pool.alloc(size)
            assert all(offset + size <= other or other + length <= offset for other, length in live.items())
            live[offset] = size
    for offset, size in live.items():
        pool.free(offset, size)


@given(requests=REQUESTS)
def test_a_buffer_without_limit_is_one_chunk(requests: list[tuple[bool, int]]) -> None:
    """Chunks that nothing outgrows place tensors as a single buffer does."""
    single, chunked = Pool(), ChunkedPool(2**40)
    live: list[tuple[int, int]] = []
    for give_back, size in requests:
        if give_back and live:
            offset, length = live.pop(0)
            single.free(offset, length)
            chunked.free(offset, length)
        else:
            offset = single.alloc(size)
            assert chunked.alloc(size) == offset
            live.append((offset, size))
    assert chunked.peak_bytes == single.peak_bytes


def test_a_full_chunk_is_followed_by_another() -> None:
    """Vulkan's buffers end at a GiB: what does not fit any more begins a new one, and the sum counts."""
    pool = ChunkedPool(1000)
    assert [pool.alloc(700), pool.alloc(700), pool.alloc(300)] == [0, 2**62, 700]
    assert pool.peak_bytes == 1000 + 700


def test_a_tensor_beyond_the_limit_gets_a_chunk_of_its_size() -> None:
    """One tensor is never cut."""
    pool = ChunkedPool(1000)
    pool.alloc(3000)
    assert pool.peak_bytes == 3000


def test_used_memory_is_preferred_to_fresh_memory() -> None:
    """Of several ends that fit, the one that needs no growth is taken."""
    pool = ChunkedPool(1000)
    pool.alloc(500)
    second = pool.alloc(900)
    pool.free(second, 900)
    assert pool.alloc(450) == second
    assert pool.peak_bytes == 500 + 900
