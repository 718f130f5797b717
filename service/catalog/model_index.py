"""Which row a reference means: exactly one, or a refusal with suggestions."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile
from typing import TypeVar

from service.catalog.model_names import ModelReference, quant_key, readings, vocabulary, words
from service.catalog.model_rows import ModelRow
from service.catalog.suggestions import close_names
from service.core.problems import UnknownModel

# the quant a bare name means, the first that the model has; else its only one
DEFAULT_QUANTS = ("Q4_K_M", "MXFP4", "MXFP4_MOE")
# one value of general.file_type (38) under the two names it is published by, as quant_key has them
SAME_QUANT = {"MXFP4": "MXFP4MOE", "MXFP4MOE": "MXFP4"}

ID_PREFIX = "sha256:"
RESOLVED_REFERENCES = 4096

Key = TypeVar("Key")
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedModel:
    """What a reference means; `notes` say what was read into it."""

    row: ModelRow
    notes: tuple[str, ...] = ()


class ModelIndex:
    """Rows by every key that references use; immutable.

    Built-in names come first, so that nobody's model changes what they mean; users' models that they cover are reached
    by their ids and aliases.
    """

    def __init__(self, rows: Sequence[ModelRow]) -> None:
        self.by_id: Mapping[str, ModelRow] = {row.id: row for row in rows}
        self.by_name: Mapping[str, Sequence[ModelRow]] = _grouped((row.name, row) for row in rows)
        self.by_alias: Mapping[str, ModelRow] = {alias: row for row in rows for alias in row.aliases}
        self._layers = tuple(
            _Names([row for row in rows if row.is_builtin is is_builtin]) for is_builtin in (True, False)
        )
        self._resolved = lru_cache(RESOLVED_REFERENCES)(self._resolve)

    def resolve(self, reference: str) -> ResolvedModel:
        """The row that a reference means; raises UnknownModel with suggestions."""
        return self._resolved(reference.strip())

    def _resolve(self, reference: str) -> ResolvedModel:
        if reference.lower().startswith(ID_PREFIX):
            return ResolvedModel(row=self._row_of_id(reference.lower()))
        if aliased := self.by_alias.get(reference.lower()):
            return ResolvedModel(row=aliased)
        refusals: list[UnknownModel] = []
        for names in self._layers:
            try:
                found = names.resolve(reference)
            except UnknownModel as refused:
                refusals.append(refused)
            else:
                if found is not None:
                    return found
        raise refusals[0] if refusals else self._unknown_name(reference)

    def named(self, text: str) -> ModelRow | None:
        """The row whose alias, name or reference `text` is to the letter, whatever its case; None where it is free."""
        key = text.lower()
        if aliased := self.by_alias.get(key):
            return aliased
        name, _, quant = key.partition(":")
        rows = self.by_name.get(name, ())
        return next((row for row in rows if quant in ("", row.quant.lower())), None)

    def _row_of_id(self, model_id: str) -> ModelRow:
        row = self.by_id.get(model_id)
        if row is None:
            raise _unknown(f"No model has the id {model_id!r}.", ())
        return row

    def _unknown_name(self, reference: str) -> UnknownModel:
        reading = next(iter(readings(reference)))
        close = close_names(reading.name, self.by_name)
        hint = f" Close to it: {', '.join(close)}." if close else ""
        return _unknown(f"No model of the catalogue is called {reading.name!r}.{hint}", close)


class _Names:
    """Rows by the words of their names."""

    def __init__(self, rows: Sequence[ModelRow]) -> None:
        self.by_name: Mapping[str, Sequence[ModelRow]] = _grouped((row.name, row) for row in rows)
        self._names_by_words = _grouped((words(name), name) for name in self.by_name)
        self._names_by_telling_words = _grouped((vocabulary().telling(name), name) for name in self.by_name)

    def resolve(self, reference: str) -> ResolvedModel | None:
        """The row that a name means, None where none is called so; raises UnknownModel where none is meant clearly."""
        for reading in readings(reference):
            names, literal = self._names(reading.name)
            if len(names) > 1:
                raise _unknown(f"{reference!r} could be {' or '.join(names)}: write the whole name.", names)
            if names:
                return self._choose(reading, names[0], literal=literal)
        return None

    def _names(self, name: str) -> tuple[Sequence[str], bool]:
        """The catalogue's names for `name`, and whether they hold the same words."""
        if exact := self._names_by_words.get(words(name)):
            return exact, True
        telling = vocabulary().telling(name)
        if same := self._names_by_telling_words.get(telling):
            return same, False
        alias = vocabulary().names_by_alias.get(telling)
        return ([] if alias is None or alias not in self.by_name else [alias]), False

    def _choose(self, reading: ModelReference, name: str, *, literal: bool) -> ResolvedModel:
        rows = self.by_name[name]
        notes = () if literal else (f"{reading.name!r} is read as {name}.",)
        if reading.quant is None:
            row = _default_row(name, rows)
            others = ", ".join(sorted({other.quant for other in rows} - {row.quant}))
            return ResolvedModel(
                row=row,
                notes=(*notes, f"No quant was named: {row.reference} is meant{f' (also {others})' if others else ''}."),
            )
        return ResolvedModel(row=_row_of_quant(name, rows, reading.quant), notes=notes)


def _row_of_quant(name: str, rows: Sequence[ModelRow], quant: str) -> ModelRow:
    by_key = _grouped((quant_key(row.quant), row) for row in rows)
    key = quant_key(quant)
    found = by_key.get(key) or by_key.get(SAME_QUANT.get(key, ""))
    if not found:
        quants = sorted({row.quant for row in rows}, key=lambda other: (-_shared_start(key, other), other))
        raise _unknown(
            f"{name} has no quant {quant!r}; it has {', '.join(quants)}.", [f"{name}:{other}" for other in quants[:5]]
        )
    return _only(name, found)


def _default_row(name: str, rows: Sequence[ModelRow]) -> ModelRow:
    by_quant = _grouped((row.quant, row) for row in rows)
    for quant in DEFAULT_QUANTS:
        if quant in by_quant:
            return _only(name, by_quant[quant])
    if len(by_quant) == 1:
        return _only(name, rows)
    references = [f"{name}:{quant}" for quant in sorted(by_quant)]
    raise _unknown(f"{name} has several quants and none is the usual one: name {' or '.join(references)}.", references)


def _shared_start(key: str, quant: str) -> int:
    pairs = zip(key, quant_key(quant), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _only(name: str, rows: Sequence[ModelRow]) -> ModelRow:
    if len(rows) > 1:
        ids = [row.id for row in rows]
        raise _unknown(f"{len(ids)} models are called {name}:{rows[0].quant}: name one by its id.", ids)
    return rows[0]


def _unknown(detail: str, suggestions: Sequence[str]) -> UnknownModel:
    return UnknownModel(detail, suggestions=suggestions, fields=("model",))


def _grouped(pairs: Iterable[tuple[Key, Value]]) -> dict[Key, list[Value]]:
    groups: dict[Key, list[Value]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups
