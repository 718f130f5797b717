"""Syntax of `-ot` patterns: ECMAScript expressions as a tree, without what no automaton can do."""

from dataclasses import dataclass
from typing import Final, TypeAlias

from service.core.problems import InvalidRequest

OTHER: Final = 128
"""Bit of a character mask that stands for every character beyond ASCII."""

ANY: Final = (1 << (OTHER + 1)) - 1
_MAX_LENGTH: Final = 1024
_MAX_REPETITIONS: Final = 64


@dataclass(frozen=True, slots=True)
class Characters:
    """One character out of a mask of code points."""

    mask: int


@dataclass(frozen=True, slots=True)
class Anchor:
    """Start ("^") or end ("$") of the name."""

    at_end: bool


@dataclass(frozen=True, slots=True)
class Sequence:
    """Parts one after the other."""

    parts: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several alternatives."""

    options: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Repetition:
    """A part `least` to `most` times; `most` None is without bound."""

    part: "Node"
    least: int
    most: int | None


Node: TypeAlias = Characters | Anchor | Sequence | Choice | Repetition


def _range(first: str, last: str) -> int:
    return sum(1 << code for code in range(ord(first), ord(last) + 1))


def _one(char: str) -> int:
    return 1 << min(ord(char), OTHER)


_DIGIT = _range("0", "9")
_UPPER, _LOWER = _range("A", "Z"), _range("a", "z")
_WORD = _DIGIT | _UPPER | _LOWER | _one("_")
_SPACE = _range("\t", "\r") | _one(" ")
_LINE_ENDS = _one("\n") | _one("\r")
_ESCAPED_CLASSES = {"d": _DIGIT, "w": _WORD, "s": _SPACE, "D": ANY & ~_DIGIT, "W": ANY & ~_WORD, "S": ANY & ~_SPACE}
_ESCAPED_CHARACTERS = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v", "0": "\0"}
_POSIX_CLASSES = {
    "alnum": _DIGIT | _UPPER | _LOWER,
    "alpha": _UPPER | _LOWER,
    "digit": _DIGIT,
    "lower": _LOWER,
    "punct": _range("!", "~") & ~(_DIGIT | _UPPER | _LOWER),
    "space": _SPACE,
    "upper": _UPPER,
    "xdigit": _DIGIT | _range("a", "f") | _range("A", "F"),
}


class _Reader:
    """Recursive descent over one pattern."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._depth = 0

    def refused(self, why: str) -> InvalidRequest:
        shown = self._pattern if len(self._pattern) <= 80 else self._pattern[:80] + "…"
        return InvalidRequest(f"override_tensor pattern {shown!r} {why}", fields=("engine.override_tensor",))

    def _peek(self) -> str:
        return self._pattern[self._at : self._at + 1]

    def _take(self) -> str:
        char = self._peek()
        if not char:
            raise self.refused("ends too early")
        self._at += 1
        return char

    def _took(self, text: str) -> bool:
        if self._pattern.startswith(text, self._at):
            self._at += len(text)
            return True
        return False

    def whole(self) -> Node:
        node = self._choice()
        if self._peek():
            raise self.refused("closes a group that is not open")
        return node

    def _choice(self) -> Node:
        self._depth += 1
        if self._depth > 50:
            raise self.refused("nests groups deeper than 50")
        options = [self._sequence()]
        while self._took("|"):
            options.append(self._sequence())
        self._depth -= 1
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def _sequence(self) -> Node:
        parts = []
        while self._peek() not in ("", "|", ")"):
            parts.append(self._repetition())
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _repetition(self) -> Node:
        atom = self._atom()
        bounds = self._bounds()
        if bounds is None:
            return atom
        self._took("?")
        if self._bounds() is not None:
            raise self.refused("repeats a repetition")
        return Repetition(atom, *bounds)

    def _bounds(self) -> tuple[int, int | None] | None:
        simple: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
        if self._peek() in simple:
            return simple[self._take()]
        if not self._took("{"):
            return None
        least = self._number()
        most: int | None = least
        if self._took(","):
            most = None if self._peek() == "}" else self._number()
        if not self._took("}") or max(least, most or 0) > _MAX_REPETITIONS or (most is not None and most < least):
            raise self.refused(f"has a {{}} repetition that is malformed or beyond {_MAX_REPETITIONS}")
        return least, most

    def _number(self) -> int:
        begin = self._at
        while self._peek() in tuple("0123456789"):
            self._at += 1
        digits = self._pattern[begin : self._at]
        if not 0 < len(digits) < 5:
            raise self.refused("has a { that begins no repetition; write \\{ for the character")
        return int(digits)

    def _atom(self) -> Node:
        char = self._take()
        if char == "(":
            return self._group()
        if char == "[":
            return Characters(self._bracket())
        if char == ".":
            return Characters(ANY & ~_LINE_ENDS)
        if char in "^$":
            return Anchor(at_end=char == "$")
        if char in "*+?{":
            raise self.refused(f"repeats nothing with {char!r}")
        return Characters(self._escape() if char == "\\" else _one(char))

    def _group(self) -> Node:
        if self._took("?") and not self._took(":"):
            raise self.refused(
                "uses a (? group other than (?:…), which cannot be followed here; the first matching entry counts, so "
                "put exceptions first"
            )
        node = self._choice()
        if not self._took(")"):
            raise self.refused("leaves a group open")
        return node

    def _escape(self) -> int:
        char = self._take()
        if char in _ESCAPED_CLASSES:
            return _ESCAPED_CLASSES[char]
        if char in "bBxuc123456789":
            raise self.refused(f"uses \\{char}, which cannot be followed here; write the characters themselves")
        return _one(_ESCAPED_CHARACTERS.get(char, char))

    def _bracket(self) -> int:
        negated = self._took("^")
        mask = 0
        while not self._took("]"):
            mask |= self._bracket_item()
        return ANY & ~mask if negated else mask

    def _bracket_item(self) -> int:
        if self._took("[:"):
            end = self._pattern.find(":]", self._at)
            name = self._pattern[self._at : end]
            if end < 0 or name not in _POSIX_CLASSES:
                raise self.refused("uses an unknown class [:…:]")
            self._at = end + 2
            return _POSIX_CLASSES[name]
        first = self._take()
        if first == "\\":
            return self._escape()
        if self._peek() != "-" or self._pattern.startswith("-]", self._at):
            return _one(first)
        self._at += 1
        last = self._take()
        if last in "\\[" or last < first:
            raise self.refused(f"has the malformed range {first}-{last}")
        return _range(first, min(last, "\x7f"))


def parse_pattern(pattern: str) -> Node:
    """The tree of an ECMAScript pattern.

    Raises InvalidRequest for what std::regex would refuse, for look-ahead, word boundaries and back-references, and
    for what llama.cpp's command line cannot carry.
    Source: std::regex (ECMAScript) as used in src/llama-model-loader.cpp:1234-1258; common/arg.cpp:236-275
    (llama.cpp in llama-cpp-python 0.3.36).
    """
    reader = _Reader(pattern)
    if not pattern:
        raise reader.refused("is empty and would match every tensor; write .* for that")
    if len(pattern) > _MAX_LENGTH:
        raise reader.refused(f"is longer than {_MAX_LENGTH} characters; split it into several entries")
    for char, why in ((",", "separates entries"), ("=", "separates pattern and buffer type")):
        if char in pattern:
            raise reader.refused(f"contains {char!r}, which {why} on llama.cpp's command line")
    return reader.whole()
