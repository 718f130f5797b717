"""Which blocks of a model have to be looked at: a run of equal blocks is as demanding as its first few."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

WINDOW = 3
"""Blocks that together determine the memory of the last of them."""

REPEATED_WINDOW = 2
"""Blocks that together determine what the allocator does for the last of them, whatever the addresses."""

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


def replayed_blocks(signatures: Sequence[Hashable]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Indices of the blocks of one run to build, and for every block the one whose memory events it repeats.

    A block is repeated only where it and the one before it are like the one that is built and the one before that. The
    first and the last block of each kind are like no other: they begin and end the lives of what their kind shares.
    """
    first = {signature: i for i, signature in reversed(list(enumerate(signatures)))}
    last = {signature: i for i, signature in enumerate(signatures)}
    placed = [(each, first[each] == i, last[each] == i) for i, each in enumerate(signatures)]
    kept = kept_blocks(placed, cycle=1, window=REPEATED_WINDOW)
    grams = [tuple(placed[max(0, i - REPEATED_WINDOW + 1) : i + 1]) for i in range(len(placed))]
    like, built = dict[tuple[Hashable, ...], int](), set(kept)
    templates = []
    for i, gram in enumerate(grams):
        if i in built:
            like[gram] = i
        templates.append(like[gram])
    return kept, tuple(templates)


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
