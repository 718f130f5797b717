"""Searching tensor names by `-ot` patterns in time linear in the name, whatever the pattern."""

from functools import lru_cache
from typing import Final

from service.core.engines.llamacpp.pattern_syntax import (
    OTHER,
    Anchor,
    Characters,
    Choice,
    Node,
    Repetition,
    Sequence,
    parse_pattern,
)
from service.core.problems import InvalidRequest

_MAX_STATES: Final = 8192
_MAX_REMEMBERED: Final = 4096


class TensorPattern:
    """A pattern as a non-deterministic automaton, made deterministic as names are read.

    literal: text that every match begins with.

    Source: Thompson, "Regular Expression Search Algorithm", CACM 11(6), 1968; the sets of states met are remembered.
    """

    def __init__(self, pattern: str) -> None:
        tree = parse_pattern(pattern)
        self._pattern = pattern
        self.literal = literal_start(tree)
        self._free: list[list[int]] = []
        self._anchored: dict[int, tuple[bool, int]] = {}
        self._reading: dict[int, tuple[int, int]] = {}
        self._accepting = self._state()
        self._start = self._build(tree, self._accepting)
        self._first = self._closure((self._start,), at_start=True)
        self._restart = self._closure((self._start,), at_start=False)
        self._next: dict[tuple[frozenset[int], str], frozenset[int]] = {}

    def found_in(self, name: str) -> bool:
        """Whether the pattern matches anywhere in `name` (std::regex_search)."""
        if self.literal not in name:
            return False
        states = self._first
        for char in name:
            if self._accepting in states:
                return True
            key = (states, char)
            following = self._next.get(key)
            if following is None:
                following = self._step(states, char)
                if len(self._next) < _MAX_REMEMBERED:
                    self._next[key] = following
            states = following
        return self._accepting in self._closure(tuple(states), at_start=not name, at_end=True)

    def _state(self) -> int:
        if len(self._free) >= _MAX_STATES:
            raise InvalidRequest(
                f"override_tensor pattern {self._pattern!r} repeats too much; split it into several entries",
                fields=("engine.override_tensor",),
            )
        self._free.append([])
        return len(self._free) - 1

    def _build(self, node: Node, following: int) -> int:
        """First state of `node`, which goes on to `following`."""
        match node:
            case Characters(mask):
                state = self._state()
                self._reading[state] = (mask, following)
                return state
            case Anchor(at_end):
                state = self._state()
                self._anchored[state] = (at_end, following)
                return state
            case Sequence(parts):
                for part in reversed(parts):
                    following = self._build(part, following)
                return following
            case Choice(options):
                state = self._state()
                self._free[state] = [self._build(option, following) for option in options]
                return state
            case Repetition(part, least, most):
                return self._build_repetition(part, least, most, following)

    def _build_repetition(self, part: Node, least: int, most: int | None, following: int) -> int:
        if most is None:
            loop = self._state()
            self._free[loop] = [self._build(part, loop), following]
            following = loop
        else:
            after = following
            for _ in range(most - least):
                optional = self._state()
                self._free[optional] = [self._build(part, following), after]
                following = optional
        for _ in range(least):
            following = self._build(part, following)
        return following

    def _closure(self, states: tuple[int, ...], *, at_start: bool, at_end: bool = False) -> frozenset[int]:
        reached = set(states)
        waiting = list(states)
        while waiting:
            state = waiting.pop()
            nexts = self._free[state]
            if state in self._anchored:
                anchor_at_end, target = self._anchored[state]
                nexts = [target] if (at_end if anchor_at_end else at_start) else []
            for target in nexts:
                if target not in reached:
                    reached.add(target)
                    waiting.append(target)
        return frozenset(reached)

    def _step(self, states: frozenset[int], char: str) -> frozenset[int]:
        bit = 1 << min(ord(char), OTHER)
        reading = (self._reading[state] for state in states if state in self._reading)
        targets = tuple(target for mask, target in reading if mask & bit)
        return self._closure(targets, at_start=False) | self._restart


def literal_start(tree: Node) -> str:
    r"""Text that every match begins with, "blk.7." for `blk\.7\.ffn_(up|down)`: names without it need no search."""
    text = ""
    for part in tree.parts if isinstance(tree, Sequence) else (tree,):
        code = part.mask.bit_length() - 1 if isinstance(part, Characters) and part.mask.bit_count() == 1 else OTHER
        if code == OTHER:
            return text
        text += chr(code)
    return text


@lru_cache(maxsize=1024)
def tensor_pattern(pattern: str) -> TensorPattern:
    """The automaton of `pattern`; raises InvalidRequest as parse_pattern does."""
    return TensorPattern(pattern)
