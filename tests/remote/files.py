"""Model files that hosts of tests serve."""

from service.gguf.header import read_file_header
from tests.gguf.gguf_bytes import I32, LITTLE, TEXT, U16, header
from tests.gguf.test_hostile_headers import SMALL, vocabulary_header


def whole(content: bytes) -> bytes:
    """A file of its full size: the header and zeros for data."""
    read = read_file_header(content)
    return content.ljust(read.data_offset_bytes + read.data_bytes, b"\0")


def part(number: int, count: int, name: str) -> bytes:
    """One file of a split model, with one tensor."""
    split = (
        LITTLE.pair("split.no", U16, number),
        LITTLE.pair("split.count", U16, count),
        LITTLE.pair("split.tensors.count", I32, count),
    )
    named = (LITTLE.pair("general.name", TEXT, "Split"),) if number == 0 else ()
    return whole(header(*named, *split, tensors=[LITTLE.tensor(name, [4])]))


MODEL = whole(SMALL)
VOCABULARY = vocabulary_header()
PARTS = {f"m-0000{number + 1}-of-00003.gguf": part(number, 3, "abc"[number]) for number in range(3)}
