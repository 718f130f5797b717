"""Split models are one model, or a problem that names what is missing."""

from pathlib import Path

import numpy as np
import pytest
from gguf import GGUFWriter

from service.core.problems import UnreadableModel
from service.gguf.reader import read_header, read_split_headers
from service.gguf.splits import part_names
from tests.gguf.gguf_bytes import I32, LITTLE, TEXT, U16, header


def part(number: int, count: int, name: str, tensor_count: int) -> bytes:
    """One part with one tensor; the first also carries the name."""
    split = (
        LITTLE.pair("split.no", U16, number),
        LITTLE.pair("split.count", U16, count),
        LITTLE.pair("split.tensors.count", I32, tensor_count),
    )
    named = (LITTLE.pair("general.name", TEXT, "whole"),) if number == 0 else ()
    return header(*named, *split, tensors=[LITTLE.tensor(name, [4])])


PARTS = [part(0, 3, "a", 3), part(1, 3, "b", 3), part(2, 3, "c", 3)]


def test_all_parts_make_the_unsplit_model() -> None:
    """In any order, the parts have the id of the model before it was split."""
    whole = header(
        LITTLE.pair("general.name", TEXT, "whole"),
        tensors=[LITTLE.tensor(name, [4], offset=32 * n) for n, name in enumerate("abc")],
    )
    model = read_split_headers([PARTS[2], PARTS[0], PARTS[1]])
    assert model.id == read_header(whole).id
    assert [tensor.name for tensor in model.tensors] == ["a", "b", "c"]
    assert not any(key.startswith("split.") for key in model.metadata)


def test_splits_as_the_gguf_package_writes_them(tmp_path: Path) -> None:
    """Two tensors a file, five tensors: three files."""
    writer = GGUFWriter(tmp_path / "m.gguf", "llama", split_max_tensors=2)
    for name in "abcde":
        writer.add_tensor(name, np.zeros((2, 8), dtype=np.float32))
    writer.write_header_to_file(tmp_path / "m.gguf")
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    paths = [tmp_path / name for name in part_names("m-00002-of-00003.gguf")]
    assert sorted(paths) == sorted(tmp_path.iterdir())
    model = read_split_headers([path.read_bytes() for path in paths])
    assert "".join(model.tensor_by_name) == "abcde"


REFUSED = {
    "one of three": (PARTS[:1], "missing: 00002-of-00003, 00003-of-00003."),
    "middle missing": ([PARTS[0], PARTS[2]], "2 of them were given; missing: 00002-of-00003."),
    "the same twice": ([PARTS[0], PARTS[1], PARTS[1]], "Part 2 of 3 was given twice"),
    "parts of two models": ([PARTS[0], part(1, 2, "b", 2)], "different models: splits into [2, 3] parts"),
    "part beyond the count": ([*PARTS[:2], part(7, 3, "c", 3)], "calls itself number 8 of 3"),
    "tensor in two parts": ([*PARTS[:2], part(2, 3, "a", 3)], "'a' is in two parts"),
    "tensors missing": ([part(0, 2, "a", 9), part(1, 2, "b", 9)], "should have 9 tensors; its parts have 2"),
    "65,535 parts": ([part(0, 65_535, "a", 1)], "00009-of-65535 and 65,526 more"),
    "count as text": ([header(LITTLE.pair("split.count", TEXT, "3"))], "split.count is '3'"),
    "no file": ([], "No file"),
}


@pytest.mark.parametrize(("parts", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_incomplete_splits_are_refused(parts: list[bytes], message: str) -> None:
    """What is wrong is named."""
    with pytest.raises(UnreadableModel) as problem:
        read_split_headers(parts)
    assert message in problem.value.detail


def test_a_part_alone_is_no_model() -> None:
    """A first part must not pass for a small model."""
    with pytest.raises(UnreadableModel, match="split into 3 parts"):
        read_header(PARTS[0])


def test_a_file_of_its_own_has_no_further_parts() -> None:
    """Only names of gguf-split's form have siblings."""
    assert part_names("model.gguf") == ("model.gguf",)
    assert part_names("m-00001-of-00002.gguf") == ("m-00001-of-00002.gguf", "m-00002-of-00002.gguf")
