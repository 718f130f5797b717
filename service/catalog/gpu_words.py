"""Card names as sets of words, so that "NVIDIA GeForce RTX 3090" and "3090" can be told to mean the same."""

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache

import tomli

from service.builtin import builtin_folder

_MARKS = re.compile(r"\((?:r|tm|c)\)|[®™©]", re.IGNORECASE)
_LSPCI = re.compile(r"\[([^\[\]]*[a-z][^\[\]]*)\]")
_BRACKETS = re.compile(r"\(([^()]*)\)")
_SIZE = re.compile(r"(?<![\w.])(\d+)[\s-]*(?:gib|gb|g)\b")
_CORES = re.compile(r"(?<![\w.])(\d+)[\s-]*cores?\b")
_MAXQ = re.compile(r"\bmax[\s-]*q\b")
_WORD = re.compile(r"[^\W_]+")
_SIZE_WORD = re.compile(r"\d+gb")
_CORES_WORD = re.compile(r"\d+core")


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """A series word, and the "vendor segment" pairs that may be called by it although their names lack it."""

    word: str
    also: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Vocabulary:
    """What the words of card names do (hardware_db/names.toml)."""

    ignored: frozenset[str]
    driver_remarks: frozenset[str]
    qualifiers: frozenset[str]
    synonyms: Mapping[str, str]
    vendors: Mapping[str, frozenset[str]]
    series: tuple[Series, ...]
    series_words: frozenset[str]
    glued_before: re.Pattern[str]
    glued_after: re.Pattern[str]
    suffix: re.Pattern[str]

    def is_qualifier(self, word: str) -> bool:
        """Whether `word` is needed only where cards differ in nothing else."""
        return word in self.qualifiers or bool(_SIZE_WORD.fullmatch(word) or _CORES_WORD.fullmatch(word))

    def is_optional(self, word: str) -> bool:
        """Whether `word` never tells two cards apart: a vendor's or a series' name."""
        return word in self.series_words or any(word in words for words in self.vendors.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """The words of a name; those of `bracketed` stood in brackets only."""

    plain: frozenset[str]
    bracketed: frozenset[str]

    @property
    def all(self) -> frozenset[str]:
        """Every word, wherever it stood."""
        return self.plain | self.bracketed


def vocabulary_from(facts: Mapping[str, object]) -> Vocabulary:
    """Build the vocabulary from the content of names.toml."""
    series = tuple(
        Series(word=row["word"], also=frozenset(row.get("also", ())))
        for row in facts["series"]  # type: ignore[attr-defined]
    )
    suffixes = _alternatives(_strings(facts["suffixes"]))
    return Vocabulary(
        ignored=frozenset(_strings(facts["ignored"])),
        driver_remarks=frozenset(_strings(facts["driver_remarks"])),
        qualifiers=frozenset(_strings(facts["qualifiers"])),
        synonyms=dict(facts["synonyms"]),  # type: ignore[call-overload]
        vendors={vendor: frozenset(words) for vendor, words in facts["vendors"].items()},  # type: ignore[attr-defined]
        series=series,
        series_words=frozenset(row.word for row in series),
        glued_before=re.compile(rf"({_alternatives(row.word for row in series)})(\d.*)"),
        glued_after=re.compile(rf"([a-z]?\d+)((?:{suffixes})+)"),
        suffix=re.compile(suffixes),
    )


@cache
def vocabulary() -> Vocabulary:
    """Read hardware_db/names.toml, once."""
    return vocabulary_from(tomli.loads((builtin_folder("hardware_db") / "names.toml").read_text("utf-8")))


@lru_cache(maxsize=4096)
def words_of(name: str, known: Vocabulary) -> Words:
    """Split a name into words: lower case, "24 GB" joined to "24gb", "4060ti" parted, drivers' remarks dropped."""
    text = unicodedata.normalize("NFKC", _MARKS.sub(" ", name)).casefold().replace("_", " ")
    if named := _LSPCI.search(text):
        text = named[1]
    remarks = [group for group in _BRACKETS.findall(text) if not _is_remark(group, known)]
    plain = frozenset(_split(_BRACKETS.sub(" ", text), known))
    return Words(plain=plain, bracketed=frozenset(_split(" ".join(remarks), known)) - plain)


def _is_remark(group: str, known: Vocabulary) -> bool:
    first = _WORD.search(group)
    return first is not None and first[0] in known.driver_remarks


def _split(text: str, known: Vocabulary) -> Iterable[str]:
    text = _SIZE.sub(r" \1gb ", text)
    text = _CORES.sub(r" \1core ", text)
    text = _MAXQ.sub(" maxq ", text)
    for found in _WORD.findall(text):
        for part in _unglue(found, known):
            word = known.synonyms.get(part, part)
            if word not in known.ignored:
                yield word


def _unglue(word: str, known: Vocabulary) -> Iterable[str]:
    if before := known.glued_before.fullmatch(word):
        yield before[1]
        word = before[2]
    if after := known.glued_after.fullmatch(word):
        yield after[1]
        yield from known.suffix.findall(after[2])
    else:
        yield word


def _alternatives(words: Iterable[str]) -> str:
    """Regular expression for any of `words`, the longest first."""
    return "|".join(re.escape(word) for word in sorted(words, key=lambda word: (-len(word), word)))


def _strings(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise TypeError(f"names.toml: a list of words was expected, not {value!r}")
    return tuple(str(word) for word in value)
