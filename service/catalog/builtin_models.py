"""The models of model_db: an index that lists them, and one compressed header each."""

import csv
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from service.builtin import builtin_folder
from service.catalog.model_rows import ModelRow, parse_header
from service.core.model_facts import model_facts

INDEX_COLUMNS = (
    "name", "quant", "id", "architecture", "tensor_count", "tensor_data_bytes", "parameters", "active_parameters",
    "trained_context_tokens",
)  # fmt: skip
_HEADER_ENDING = ".gguf.xz"


@dataclass(frozen=True, slots=True)
class BuiltinModels:
    """The models of model_db straight from its files, for use without a database."""

    def revision(self) -> int:
        """Built-in files do not change while a process runs."""
        return 0

    def rows(self) -> Sequence[ModelRow]:
        """Rows of the index."""
        return builtin_rows()

    def header_xz(self, row: ModelRow) -> bytes:
        """Content of one file."""
        return header_path(row.name, row.quant).read_bytes()


@cache
def builtin_rows() -> tuple[ModelRow, ...]:
    """Read the index, once."""
    with index_path().open(encoding="utf-8", newline="") as index:
        return tuple(_row(record) for record in csv.DictReader(index))


@cache
def builtin_by_id() -> Mapping[str, ModelRow]:
    """Rows of the index by the digest of their content."""
    return {row.id: row for row in builtin_rows()}


@cache
def builtin_models_digest() -> str:
    """SHA-256 of the index; it holds every model's id, so it stands for all of model_db."""
    return hashlib.sha256(index_path().read_bytes()).hexdigest()


def index_path() -> Path:
    """File that lists model_db."""
    return builtin_folder("model_db") / "index.csv"


def header_path(name: str, quant: str) -> Path:
    """File that holds a model's header."""
    return builtin_folder("model_db") / name / f"{quant}{_HEADER_ENDING}"


def rows_of_files() -> Iterator[ModelRow]:
    """What the index must say: every header of model_db parsed, by name and quant."""
    for path in sorted(builtin_folder("model_db").glob(f"*/*{_HEADER_ENDING}")):
        model = parse_header(path.read_bytes())
        facts = model_facts(model)
        yield ModelRow(
            name=path.parent.name,
            quant=path.name.removesuffix(_HEADER_ENDING),
            id=model.id,
            architecture=model.architecture,
            tensor_count=len(model.tensors),
            tensor_data_bytes=facts.tensor_data_bytes,
            parameters=facts.parameters,
            active_parameters=facts.active_parameters,
            trained_context_tokens=facts.trained_context_tokens,
        )


def write_index(rows: Iterable[ModelRow], path: Path) -> None:
    """Write an index; `python -m service.catalog.builtin_models` writes model_db's after a header was added."""
    with path.open("w", encoding="utf-8", newline="") as index:
        table = csv.writer(index, lineterminator="\n")
        table.writerow(INDEX_COLUMNS)
        table.writerows([getattr(row, column) for column in INDEX_COLUMNS] for row in rows)


def _row(record: Mapping[str, str]) -> ModelRow:
    return ModelRow(
        name=record["name"],
        quant=record["quant"],
        id=record["id"],
        architecture=record["architecture"],
        tensor_count=int(record["tensor_count"]),
        tensor_data_bytes=int(record["tensor_data_bytes"]),
        parameters=int(record["parameters"]),
        active_parameters=int(record["active_parameters"]),
        trained_context_tokens=int(record["trained_context_tokens"]),
    )


if __name__ == "__main__":
    write_index(rows_of_files(), index_path())
