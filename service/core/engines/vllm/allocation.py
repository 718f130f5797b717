"""Bytes that an allocation takes in PyTorch's caching allocator."""

from service.core.units import MIB, pad

_SMALLEST_BYTES = 512
_LARGE_BYTES = 10 * MIB
_ROUND_BYTES = 2 * MIB
_KEPT_REST_BYTES = MIB


def allocated_bytes(size_bytes: int) -> int:
    """What a tensor of `size_bytes` takes: a rest of up to 1 MiB of its segment is not given to others.

    Source: kMinLargeAlloc, kRoundLarge, kSmallSize and should_split, c10/cuda/CUDACachingAllocator.cpp (PyTorch 2.9).
    """
    if size_bytes < _LARGE_BYTES:
        return pad(size_bytes, _SMALLEST_BYTES)
    segment_bytes = pad(size_bytes, _ROUND_BYTES)
    return segment_bytes if segment_bytes - size_bytes <= _KEPT_REST_BYTES else pad(size_bytes, _SMALLEST_BYTES)
