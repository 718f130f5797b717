"""Models split over several files by gguf-split."""

import re
from collections.abc import Mapping, Sequence

from service.core.problems import UnreadableModel
from service.core.types import MetadataValue, Tensor
from service.gguf.header import Header
from service.gguf.limits import MAX_PARTS

_PART_NUMBER = "split.no"
_PART_COUNT = "split.count"
_TENSOR_COUNT = "split.tensors.count"
_SPLIT_KEYS = frozenset({_PART_NUMBER, _PART_COUNT, _TENSOR_COUNT})

_PART_NAME = re.compile(r"(?P<prefix>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf")


def part_names(file_name: str) -> tuple[str, ...]:
    """Names of all parts of a split model, from the name of any; the name alone where it is no part's.

    A name that claims more parts than any model has stands alone, too: it says so itself when it is read.

    Source: llama_split_path and llama_split_prefix, src/llama.cpp:545-600 (llama.cpp in llama-cpp-python 0.3.36).
    """
    match = _PART_NAME.fullmatch(file_name)
    count = 0 if match is None else int(match["count"])
    if match is None or not 0 < count <= MAX_PARTS:
        return (file_name,)
    return tuple(f"{match['prefix']}-{number:05d}-of-{count:05d}.gguf" for number in range(1, count + 1))


def merge_parts(parts: Sequence[Header]) -> tuple[Mapping[str, MetadataValue], Mapping[str, Tensor]]:
    """Metadata (the first part's, without the keys of the split) and all tensors in the order of the parts.

    Errors: UnreadableModel where parts are missing or repeated, contradict each other, or tensors are missing.
    Source: llama_model_loader::llama_model_loader, src/llama-model-loader.cpp:570-680 (llama.cpp in
    llama-cpp-python 0.3.36).
    """
    ordered = _ordered(parts)
    tensors: dict[str, Tensor] = {}
    for part in ordered:
        for name, tensor in part.tensors.items():
            if name in tensors:
                raise UnreadableModel(f"Tensor {name!r} is in two parts of the split model.")
            tensors[name] = tensor
    first = ordered[0].metadata
    expected_tensors = _integer(first, _TENSOR_COUNT, len(tensors))
    if len(ordered) > 1 and expected_tensors != len(tensors):
        raise UnreadableModel(
            f"The split model should have {expected_tensors:,} tensors; its parts have {len(tensors):,}."
        )
    return {key: value for key, value in first.items() if key not in _SPLIT_KEYS}, tensors


def _ordered(parts: Sequence[Header]) -> list[Header]:
    if not parts:
        raise UnreadableModel("No file was given.")
    counts = {_integer(part.metadata, _PART_COUNT, 1) or 1 for part in parts}
    if len(counts) > 1:
        raise UnreadableModel(f"The files belong to different models: splits into {sorted(counts)} parts.")
    count = counts.pop()
    by_number: dict[int, Header] = {}
    for part in parts:
        number = _integer(part.metadata, _PART_NUMBER, 0) if count > 1 else 0
        if number in by_number:
            raise UnreadableModel(f"Part {number + 1} of {count} was given twice.")
        by_number[number] = part
    _refuse_missing(by_number, count)
    return [by_number[number] for number in range(count)]


def _refuse_missing(by_number: Mapping[int, Header], count: int) -> None:
    strays = sorted(number for number in by_number if not 0 <= number < count)
    if strays:
        raise UnreadableModel(f"A part calls itself number {strays[0] + 1} of {count}.")
    missing = count - len(by_number)
    if missing == 0:
        return
    first_missing = [number for number in range(min(count, len(by_number) + 8)) if number not in by_number][:8]
    names = ", ".join(f"{number + 1:05d}-of-{count:05d}" for number in first_missing)
    more = f" and {missing - len(first_missing):,} more" if missing > len(first_missing) else ""
    raise UnreadableModel(
        f"The model is split into {count:,} parts and {len(by_number):,} of them were given; missing: {names}{more}."
    )


def _integer(metadata: Mapping[str, MetadataValue], key: str, default: int) -> int:
    value = metadata.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int):
        raise UnreadableModel(f"The header's {key} is {value!r}, not an integer.")
    return value
