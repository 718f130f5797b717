"""The catalogue of models: listed without parsing, parsed when first asked for."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from service.catalog.model_index import ModelIndex, ResolvedModel
from service.catalog.model_rows import ModelRow, ModelSource, parse_checkpoint, parse_header
from service.core.checkpoints import Checkpoint
from service.core.model_kinds import ModelKind
from service.core.problems import UnknownModel, Unsupported
from service.core.types import Model

PARSED_MODELS = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSummary:
    """A model with all its quants, as lists show it."""

    name: str
    architecture: str
    parameters: int
    active_parameters: int
    trained_context_tokens: int
    kind: ModelKind
    rows: tuple[ModelRow, ...]

    @property
    def quants(self) -> tuple[str, ...]:
        """Quants from the smallest to the largest."""
        return tuple(row.quant for row in self.rows)


class ModelCatalog:
    """Models of one source, by reference.

    The rows are read once and again by `refresh` after the source's revision moved; of parsed models the
    latest 128 are kept, so that rules memoised per model object stay warm. Safe to share between threads.
    """

    def __init__(self, source: ModelSource) -> None:
        self._source = source
        self._revision = source.revision()
        self._index = ModelIndex(source.rows())
        self._parsed = lru_cache(PARSED_MODELS)(self._parse)

    @property
    def revision(self) -> int:
        """Number that moves with every change of the source's rows that was taken over."""
        return self._revision

    def refresh(self) -> None:
        """Take over the source's rows if they changed."""
        revision = self._source.revision()
        if revision != self._revision:
            self._index, self._revision = ModelIndex(self._source.rows()), revision

    def resolve(self, reference: str) -> ResolvedModel:
        """The row that "name:quant", a bare name or an id ("sha256:…") means.

        Case and separators do not matter, nor do words like "instruct"; nothing is guessed between two models.
        Raises UnknownModel with suggestions.
        """
        return self._index.resolve(reference)

    def reference_to(self, row: ModelRow) -> str:
        """What names a row and no other: name:quant, or its id where another row is called so."""
        try:
            return row.reference if self.resolve(row.reference).row.id == row.id else row.id
        except UnknownModel:
            return row.id

    def named(self, text: str) -> ModelRow | None:
        """The row whose alias, name or name:quant `text` is to the letter, whatever its case; None where it is free."""
        return self._index.named(text)

    def model(self, row: ModelRow) -> Model:
        """The parsed model of a row, under the catalogue's name and quant; raises Unsupported for a checkpoint."""
        if row.format != "gguf":
            raise Unsupported(
                f"{row.reference} is a checkpoint ({row.format}), which llama.cpp does not load: convert it to GGUF, "
                "or ask for engine.name vllm.",
                fields=("model",),
            )
        return self._parsed(row)

    def checkpoint(self, row: ModelRow) -> Checkpoint:
        """The checkpoint of a row that is one."""
        return parse_checkpoint(self._source.header_xz(row))

    def search(self, text: str = "") -> tuple[ModelSummary, ...]:
        """Models whose name or architecture has every word of `text`, by name; all for an empty text."""
        wanted = text.casefold().split()
        summaries = (_summary(name, rows) for name, rows in sorted(self._index.by_name.items()))
        return tuple(
            summary
            for summary in summaries
            if all(word in f"{summary.name} {summary.architecture}".casefold() for word in wanted)
        )

    def _parse(self, row: ModelRow) -> Model:
        model = parse_header(self._source.header_xz(row))
        return replace(model, id=row.id, name=row.name, quant=row.quant)


def _summary(name: str, rows: Sequence[ModelRow]) -> ModelSummary:
    by_size = tuple(sorted(rows, key=lambda row: (row.tensor_data_bytes, row.quant)))
    return ModelSummary(
        name=name,
        architecture=by_size[0].architecture,
        parameters=by_size[0].parameters,
        active_parameters=by_size[0].active_parameters,
        trained_context_tokens=by_size[0].trained_context_tokens,
        kind=by_size[0].kind,
        rows=by_size,
    )
