"""model_db is what its index says, header by header."""

import json
from pathlib import Path

import pytest

from service.builtin import builtin_folder
from service.catalog.builtin_models import (
    INDEX_COLUMNS,
    BuiltinModels,
    builtin_rows,
    index_path,
    rows_of_files,
    write_index,
)
from service.catalog.model_names import vocabulary
from service.catalog.model_rows import ModelRow

GOLDEN_TOTALS = Path(__file__).parents[1] / "golden" / "model_headers.jsonl"


@pytest.fixture(scope="module")
def parsed_rows() -> list[ModelRow]:
    """Every header of model_db, parsed."""
    return list(rows_of_files())


def test_every_header_has_the_totals_it_was_collected_with(parsed_rows: list[ModelRow]) -> None:
    """Tensors, bytes and architecture of 902 headers equal the list that came with them."""
    golden = [json.loads(line) for line in GOLDEN_TOTALS.read_text().splitlines()]
    assert len(golden) == 902
    assert {
        (row["model"], row["quant"]): (row["arch"], row["tensors"], row["tensor_data_bytes"]) for row in golden
    } == {(row.name, row.quant): (row.architecture, row.tensor_count, row.tensor_data_bytes) for row in parsed_rows}


def test_the_index_says_what_the_headers_say(parsed_rows: list[ModelRow]) -> None:
    """No row is missing, too much or old: else run `python -m service.catalog.builtin_models`."""
    assert list(builtin_rows()) == parsed_rows


def test_writing_the_index_gives_the_committed_file(tmp_path: Path) -> None:
    """Sorted, and in one form only."""
    write_index(builtin_rows(), tmp_path / "index.csv")
    assert (tmp_path / "index.csv").read_bytes() == index_path().read_bytes()
    keys = [(row.name, row.quant) for row in builtin_rows()]
    assert keys == sorted(set(keys))


def test_every_built_in_row_is_complete(parsed_rows: list[ModelRow]) -> None:
    """No figure is missing or zero, and no two models are the same."""
    assert all(getattr(row, column) for row in parsed_rows for column in INDEX_COLUMNS)
    assert all(row.active_parameters <= row.parameters for row in parsed_rows)
    assert len({row.id for row in parsed_rows}) == len(parsed_rows)


def test_model_db_holds_nothing_but_its_index_names_and_headers() -> None:
    """A stray file would be shipped and never read."""
    folder = builtin_folder("model_db")
    headers = {folder / row.name / f"{row.quant}.gguf.xz" for row in builtin_rows()}
    others = {folder / name for name in ("README.md", "index.csv", "names.toml", "vllm.toml")}
    assert {path for path in folder.rglob("*") if path.is_file()} == headers | others


def test_every_alias_names_one_model_and_none_is_a_name_itself() -> None:
    """Aliases lead to models there are, and are written in order."""
    names = {row.name for row in BuiltinModels().rows()}
    aliases = vocabulary().aliases
    assert set(aliases.values()) <= names
    assert not aliases.keys() & names
    assert list(aliases) == sorted(aliases)
    assert len(vocabulary().names_by_alias) == len(aliases)
