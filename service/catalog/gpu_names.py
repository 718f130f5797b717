"""Which card a name means: exactly one, or none and why. "3090" is never "3090 Ti"."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from service.catalog.gpu_records import GpuRecord
from service.catalog.gpu_words import Vocabulary, Words, vocabulary, words_of
from service.catalog.suggestions import close_names
from service.core.problems import InvalidRequest, UnknownGpu
from service.core.units import GIB

LARGEST_COUNT = 999
LONGEST_NAME = 200
SUGGESTIONS = 6

_REPEATED = re.compile(r"\s*(\d{1,3})\s*[x\u00d7*]\s*(?=\S)(.*)", re.IGNORECASE | re.DOTALL)
_SEPARATORS = re.compile(r"[\W_]+")
_SIZE_WORD = re.compile(r"(\d+)gb")


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedGpu:
    """What a name means: the card, and the memory size where it is sold with several and the name says which."""

    record: GpuRecord
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NameForm:
    """One way to call a card.

    identity: words that must be said; marks: words that must be said only where another card has the
    same identity; allowed: every word that may be said.
    """

    slug: str
    identity: frozenset[str]
    marks: frozenset[str]
    allowed: frozenset[str]


def parse_count(text: str) -> tuple[int, str]:
    """Part "2x rtx-4090" into 2 and "rtx-4090"; a name without a number in front counts once.

    Raises InvalidRequest where the number is 0 or above `LARGEST_COUNT`.
    """
    repeated = _REPEATED.fullmatch(text)
    if repeated is None:
        return 1, text.strip()
    count = int(repeated[1])
    if not 1 <= count <= LARGEST_COUNT:
        raise InvalidRequest(f"{text[:LONGEST_NAME]!r}: the number of cards must be 1 to {LARGEST_COUNT}")
    return count, repeated[2].strip()


class GpuNames:
    """Finds cards by slug, name or alias among `records`, by rule (see `NameForm`), never by likeness."""

    def __init__(self, records: Iterable[GpuRecord], known: Vocabulary | None = None) -> None:
        self.records: Mapping[str, GpuRecord] = {record.slug: record for record in records}
        self._known = known or vocabulary()
        self._forms_by_slug: dict[str, tuple[NameForm, ...]] = {}

    def resolve(self, name: str) -> NamedGpu:
        """The one card that `name` means.

        Raises UnknownGpu, with suggestions, where it means none or could mean several.
        """
        exact = self.records.get(name.strip().casefold())
        if exact is not None:
            return NamedGpu(record=exact)
        if not name.strip() or len(name) > LONGEST_NAME:
            raise UnknownGpu(f"a card's name has 1 to {LONGEST_NAME} characters")
        said = words_of(name, self._known).all
        possible = [form for form in self._forms_near(said) if form.identity <= said <= form.allowed]
        slugs = _fully_said(possible, said)
        if len(slugs) != 1:
            raise self._refusal(name, said, slugs or _slugs(possible))
        record = self.records[slugs[0]]
        return NamedGpu(record=record, memory_bytes=_memory_bytes(record, said))

    def _forms_near(self, said: frozenset[str]) -> Iterator[NameForm]:
        """Forms of the cards in whose names a telling word of `said` occurs: all that can match, and few others."""
        telling = [word for word in said if not self._known.is_optional(word)]
        for slug, text in self._texts.items():
            if any(word in text for word in telling):
                yield from self._forms_of(slug)

    def _forms_of(self, slug: str) -> tuple[NameForm, ...]:
        if slug not in self._forms_by_slug:
            self._forms_by_slug[slug] = tuple(name_forms(self.records[slug], self._known))
        return self._forms_by_slug[slug]

    @cached_property
    def _texts(self) -> Mapping[str, str]:
        """What each card is called, letters and digits only, so that "12 GB" contains "12gb"."""
        called = ((slug, " ".join(_called(record))) for slug, record in self.records.items())
        return {slug: _SEPARATORS.sub("", text.casefold()) for slug, text in called}

    @property
    def _forms(self) -> tuple[NameForm, ...]:
        return tuple(form for slug in self.records for form in self._forms_of(slug))

    def _refusal(self, name: str, said: frozenset[str], slugs: list[str]) -> UnknownGpu:
        """The problem that says why `name` means no single card, with what it could have meant."""
        slugs = slugs or _slugs(form for form in self._forms if said and said <= form.allowed)
        if len(slugs) > 1:
            return UnknownGpu(
                f"{name!r} is ambiguous: it could be {self._listed(slugs)}; say which", suggestions=slugs[:SUGGESTIONS]
            )
        close = slugs or self._contradicted(said) or self._close(name)
        hint = f"; did you mean {self._listed(close)}?" if close else ""
        return UnknownGpu(f"no card in the catalogue is called {name!r}{hint}", suggestions=close)

    def _contradicted(self, said: frozenset[str]) -> list[str]:
        """Cards that `said` identifies but for words that are not theirs ("GTX 3090"), the most of them in common."""
        forms = [form for form in self._forms_near(said) if form.identity <= said]
        most = max((len(form.identity) for form in forms), default=0)
        return _slugs(form for form in forms if len(form.identity) == most)[:SUGGESTIONS]

    def _close(self, name: str) -> list[str]:
        slug_by_name = {called: record.slug for record in self.records.values() for called in _called(record)}
        close = close_names(name, slug_by_name, limit=3 * SUGGESTIONS)
        return list(dict.fromkeys(slug_by_name[called] for called in close))[:SUGGESTIONS]

    def _listed(self, slugs: list[str]) -> str:
        listed = ", ".join(f"{self.records[slug].name} ({slug})" for slug in slugs[:SUGGESTIONS])
        return listed + (f" or one of {len(slugs) - SUGGESTIONS} more" if len(slugs) > SUGGESTIONS else "")


def name_forms(record: GpuRecord, known: Vocabulary) -> Iterator[NameForm]:
    """Every way to call a card: its name, its slug and its aliases, each with the words that may be added."""
    extras = _extra_words(record, known)
    for called in _called(record):
        words: Words = words_of(called, known)
        marks = frozenset(word for word in words.all if known.is_qualifier(word) or word in extras.described)
        identity = frozenset(word for word in words.plain - marks if not known.is_optional(word))
        allowed = words.all | extras.allowed
        yield NameForm(slug=record.slug, identity=identity or words.plain, marks=marks, allowed=allowed)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ExtraWords:
    """Words that describe a card without being in its name; those of `described` never identify one."""

    described: frozenset[str]
    allowed: frozenset[str]


def _extra_words(record: GpuRecord, known: Vocabulary) -> _ExtraWords:
    sizes = {f"{size // GIB}gb" for size in (record.vram_bytes, *record.memory_options_bytes) if size}
    described = words_of(f"{record.memory_type or ''} {record.architecture or ''}", known).all
    described |= _form_factor(record) | sizes
    kind = f"{record.vendor} {record.segment}"
    series = {row.word for row in known.series if kind in row.also}
    words = set(described | series | known.vendors.get(record.vendor, frozenset()))
    for form_factor in words_of(f"{record.slug} {record.name}", known).all:
        # whoever says SXM means any of its generations
        if re.fullmatch(r"sxm\d", form_factor):
            words.add("sxm")
    return _ExtraWords(described=frozenset(described), allowed=frozenset(words))


def _form_factor(record: GpuRecord) -> frozenset[str]:
    mount = (record.slot_width or "").casefold()
    if mount in {"sxm", "oam"}:
        return frozenset({mount})
    return frozenset({"pcie"}) if mount.isdigit() and record.pcie_gen else frozenset()


def _fully_said(possible: list[NameForm], said: frozenset[str]) -> list[str]:
    """Slugs of the cards that `said` tells apart from the rest of `possible`.

    Words that all possible forms share distinguish nothing; of the others a form needs all of its own.
    """
    if len(_slugs(possible)) <= 1:
        return _slugs(possible)
    shared = frozenset.intersection(*(form.marks for form in possible))
    return _slugs(form for form in possible if form.marks - shared <= said)


def _slugs(forms: Iterable[NameForm]) -> list[str]:
    return list(dict.fromkeys(form.slug for form in forms))


def _called(record: GpuRecord) -> tuple[str, ...]:
    return (record.name, record.slug, *record.aliases)


def _memory_bytes(record: GpuRecord, said: frozenset[str]) -> int | None:
    """The memory size in `said`, for a card that is sold with several."""
    sizes = (int(match[1]) * GIB for word in said if (match := _SIZE_WORD.fullmatch(word)))
    return next((size for size in sizes if size in record.memory_options_bytes), None)
