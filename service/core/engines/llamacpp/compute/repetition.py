"""Which blocks of a model have to be looked at: a run of equal blocks is as demanding as its first few."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

WINDOW = 3
"""Blocks that together determine the memory of the last of them."""

REORDERED_WINDOW = 5
"""The same where a backend computes nodes of one block between those of others."""

CYCLE = 2
"""Addresses among which the hidden state moves from block to block in most architectures."""


def kept_blocks(signatures: Sequence[Hashable], cycle: int = CYCLE, window: int = WINDOW) -> tuple[int, ...]:
    """Indices of blocks such that every sequence of `window` adjacent signatures occurs among the kept ones.

    Walks along the blocks and, wherever the walk stands before nothing new, jumps ahead to the last block with the same
    recent past; the first and the last block are always kept. Jumps skip a multiple of `cycle` blocks of each kind,
    because a kind may move the hidden state to the next of so many addresses.
    """
    n = len(signatures)
    grams = [tuple(signatures[max(0, i - window + 1) : i + 1]) for i in range(n)]
    recent = [gram[-(window - 1) :] for gram in grams]
    last_with: dict[tuple[Hashable, ...], list[int]] = {}
    for i, past in enumerate(recent):
        last_with.setdefault(past, []).append(i)
    phases = _phases(signatures, cycle)
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
            i = max(place for place in places if i <= place < new and phases[place] == phases[i])
        i += 1
    return tuple(kept)


def _phases(signatures: Sequence[Hashable], cycle: int) -> list[tuple[int, ...]]:
    """How many blocks of each kind there are up to each block, modulo `cycle`."""
    kinds = {signature: number for number, signature in enumerate(dict.fromkeys(signatures))}
    counts = [0] * len(kinds)
    phases = []
    for signature in signatures:
        number = kinds[signature]
        counts[number] = (counts[number] + 1) % cycle
        phases.append(tuple(counts))
    return phases
