"""Which model of the catalogue a benchmark ran: by the bytes and number of its weights and the mix of their types."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from service.catalog.model_index import SAME_QUANT
from service.catalog.model_names import quant_key
from service.catalog.model_rows import ModelRow
from service.catalog.models import ModelCatalog
from service.core.problems import UnknownModel
from service.measurements.descriptions import Described, described
from service.measurements.runs import ModelSeen, Printed

# quantisations of one model by different people differ in a few tensors' types
NEARLY_FRACTION: Final = 0.01
# more is another model than the one named, or another mix
NAMED_FRACTION: Final = 0.03
_SAME_FRACTION: Final = 0.001
_PARAMETERS_FRACTION: Final = 0.005
_SHOWN: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelMatch:
    """The row that was measured, or why none is known; notes say what was read into it.

    name: what a question about another engine's model calls it, which that engine's planning resolves.
    """

    row: ModelRow | None = None
    name: str = ""
    code: str = ""
    reason: str = ""
    notes: tuple[str, ...] = ()
    candidates: tuple[str, ...] = ()


def named_model(seen: ModelSeen, named: str | None) -> ModelMatch:
    """The model of an engine that prints nothing but its name; the caller's word goes before it."""
    name = named or (seen.name or "").rpartition("/")[2]
    if not name:
        return ModelMatch(code="unknown-model", reason="Nothing says which model was measured: name it.")
    return ModelMatch(name=name)


def matched_model(seen: ModelSeen, models: ModelCatalog, named: str | None) -> ModelMatch:
    """Find the row.

    named: as the caller calls the model; what the program printed must not contradict it. Without a name, exactly one
    kind of weights must agree with what was printed: models that differ in nothing else run the same computation.
    """
    told = described(seen.description)
    if named is not None:
        return _named(seen, told, models, named)
    if seen.size_bytes is None:
        return ModelMatch(code="unknown-model", reason="Nothing says which model was measured: name it.")
    rows = _rows(models)
    found = [row for row in rows if seen.size_bytes.holds(row.tensor_data_bytes) and _agrees(row, seen, told)]
    notes: tuple[str, ...] = ()
    if not found and told is not None and told.quant is not None:
        found = [row for row in rows if _differs(seen.size_bytes, row) <= NEARLY_FRACTION and _agrees(row, seen, told)]
        nearest = min((_differs(seen.size_bytes, row) for row in found), default=0.0)
        notes = (f"The weights differ by {nearest:.1%} from the catalogue's.",) if found else ()
        found = [row for row in found if _differs(seen.size_bytes, row) <= nearest + _SAME_FRACTION]
    return _only(seen, models, found, notes) if found else _unknown(seen, told, rows)


def _rows(models: ModelCatalog) -> Sequence[ModelRow]:
    return [
        row
        for summary in models.search()
        for row in summary.rows
        if row.format == "gguf" and row.kind == "model"
    ]  # fmt: skip


def _agrees(row: ModelRow, seen: ModelSeen, told: Described | None) -> bool:
    """Whether architecture, quantisation and number of weights are those printed, as far as they were."""
    if told is not None and told.architecture != row.architecture:
        return False
    if told is not None and told.quant is not None and not _is_quant(told.quant, row.quant):
        return False
    return seen.parameters is None or _near(seen.parameters, row.parameters, _PARAMETERS_FRACTION)


def _is_quant(printed: str, quant: str) -> bool:
    key, own = quant_key(printed), quant_key(quant)
    return own in (key, SAME_QUANT.get(key, key))


def _near(printed: Printed, value: float, fraction: float) -> bool:
    return printed.least * (1 - fraction) <= value <= printed.most * (1 + fraction)


def _differs(printed: Printed, row: ModelRow) -> float:
    return abs(row.tensor_data_bytes / printed.middle - 1) if printed.middle else 1.0


def _only(seen: ModelSeen, models: ModelCatalog, found: Sequence[ModelRow], notes: tuple[str, ...]) -> ModelMatch:
    """The row, where all that were found compute the same; else the one that the file is called by."""
    found = _of_these_types(seen, models, found)
    first = found[0]
    others = [row for row in found[1:] if not _same_computation(first, row)]
    if others:
        called = _called(seen, models)
        if called is None or called not in found:
            names = tuple(row.reference for row in found)
            return ModelMatch(
                code="ambiguous-model",
                reason=f"These weights could be {', '.join(names[:_SHOWN])}: name the model.",
                candidates=names,
            )
        first = called
    alike = [row.reference for row in found if row is not first]
    if alike:
        notes = (*notes, f"Taken as {first.reference}, which runs the same computation as {', '.join(alike[:_SHOWN])}.")
    return ModelMatch(row=first, notes=notes)


def _of_these_types(seen: ModelSeen, models: ModelCatalog, found: Sequence[ModelRow]) -> Sequence[ModelRow]:
    """Rows that have as many tensors of each type as the loader counted; all where it counted none or none agrees."""
    if len(found) == 1 or not seen.tensors_by_type:
        return found
    told = dict(seen.tensors_by_type)
    agreeing = [
        row for row in found if Counter(tensor.type.name.lower() for tensor in models.model(row).tensors) == told
    ]
    return agreeing or found


def _same_computation(one: ModelRow, other: ModelRow) -> bool:
    """Whether two rows hold as many weights in as many bytes of the same mix under the same architecture."""
    return (
        (one.architecture, one.quant) == (other.architecture, other.quant)
        and abs(one.parameters / other.parameters - 1) < _SAME_FRACTION
        and abs(one.tensor_data_bytes / other.tensor_data_bytes - 1) < _SAME_FRACTION
        and one.active_parameters * other.parameters == other.active_parameters * one.parameters
    )


def _called(seen: ModelSeen, models: ModelCatalog) -> ModelRow | None:
    """The row that the name of the file means."""
    if seen.file_name is None:
        return None
    try:
        return models.resolve(seen.file_name.removesuffix(".gguf")).row
    except UnknownModel:
        return None


def _named(seen: ModelSeen, told: Described | None, models: ModelCatalog, named: str) -> ModelMatch:
    """The row that the caller named; of a bare name, the quantisation that was printed."""
    resolved = models.resolve(named)
    row, notes = resolved.row, resolved.notes
    if notes and seen.size_bytes is not None:
        alike = [other for other in _rows(models) if other.name == row.name and _agrees(other, seen, told)]
        size = seen.size_bytes
        row = min(alike, key=lambda other: _differs(size, other), default=row)
        notes = ()
    contradiction = _contradiction(seen, told, row)
    if contradiction:
        return ModelMatch(code="model-contradicted", reason=contradiction, candidates=(row.reference,))
    return ModelMatch(row=row, notes=tuple(notes))


def _contradiction(seen: ModelSeen, told: Described | None, row: ModelRow) -> str:
    """What the program printed against the model that was named."""
    if told is not None and told.architecture != row.architecture:
        return f"{row.reference} is a {row.architecture} model, the one measured a {told.architecture} model."
    if seen.size_bytes is not None and not _near(seen.size_bytes, row.tensor_data_bytes, NAMED_FRACTION):
        return (
            f"{row.reference} has {row.tensor_data_bytes:,} bytes of weights, the model measured "
            f"{seen.size_bytes.middle:,.0f}."
        )
    if seen.parameters is not None and not _near(seen.parameters, row.parameters, NAMED_FRACTION):
        return f"{row.reference} has {row.parameters:,} weights, the model measured {seen.parameters.middle:,.0f}."
    return ""


def _unknown(seen: ModelSeen, told: Described | None, rows: Sequence[ModelRow]) -> ModelMatch:
    """Why no row agrees, with the nearest of them."""
    size = seen.size_bytes
    near: tuple[str, ...] = ()
    if size is not None:
        alike = [row for row in rows if _agrees(row, seen, None if told is None else _without_quant(told))]
        near = tuple(row.reference for row in sorted(alike, key=lambda row: _differs(size, row))[:_SHOWN])
    what = f"{seen.description or 'a model'} of {size.middle:,.0f} bytes" if size else seen.description or "a model"
    hint = f"; closest are {', '.join(near)}" if near else ""
    return ModelMatch(
        code="unknown-model",
        reason=f"No model of the catalogue is {what}{hint}: import its file, or name the model.",
        candidates=near,
    )


def _without_quant(told: Described) -> Described:
    return Described(architecture=told.architecture, size_class=told.size_class, quant=None)
