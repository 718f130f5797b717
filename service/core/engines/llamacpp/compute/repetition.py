"""Which blocks of a model have to be looked at: a run of equal blocks is as demanding as its first few."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

WINDOW = 3
"""Blocks that together determine the memory of the last of them."""


def kept_blocks(signatures: Sequence[Hashable], window: int = WINDOW) -> tuple[int, ...]:
    """Indices of blocks such that every sequence of `window` adjacent signatures occurs among the kept ones.

    Walks along the blocks and, wherever the walk stands before nothing new, jumps ahead to the last block with the same
    recent past; the first and the last block are always kept. Jumps skip an even number of blocks of each kind, because
    a kind may move the hidden state to the other of two addresses.
    """
    n = len(signatures)
    grams = [tuple(signatures[max(0, i - window + 1) : i + 1]) for i in range(n)]
    recent = [gram[-(window - 1) :] for gram in grams]
    last_with: dict[tuple[Hashable, ...], list[int]] = {}
    for i, past in enumerate(recent):
        last_with.setdefault(past, []).append(i)
    parities = _parities(signatures)
    kept: list[int] = []
    seen: set[tuple[Hashable, ...]] = set()
    i = 0
    while i < n:
        kept.append(i)
        seen.add(grams[i])
        new = i + 1
        while new < n and grams[new] in seen:
            new += 1
        if new > i + 1:
            places = last_with[recent[i]]
            i = max(place for place in places if i <= place < new and parities[place] == parities[i])
        i += 1
    return tuple(kept)


def _parities(signatures: Sequence[Hashable]) -> list[int]:
    """Bits that say, at each block, of which kinds there are an odd number up to it."""
    bits: dict[Hashable, int] = {}
    parity = 0
    parities = []
    for signature in signatures:
        parity ^= bits.setdefault(signature, 1 << len(bits))
        parities.append(parity)
    return parities
