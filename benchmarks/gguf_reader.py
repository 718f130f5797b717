"""Speed and memory of the header reader, alone and against the `gguf` package: `python benchmarks/gguf_reader.py`."""

import lzma
import os
import statistics
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from io import BytesIO
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, GGUFReader, GGUFWriter

from service.builtin import builtin_folder
from service.catalog.model_rows import parse_header
from service.core.types import Model
from service.core.units import MIB
from service.gguf.reader import read_header

CATALOGUE_MODELS = ("llama-3.3-70b/Q4_K_M", "gpt-oss-120b/MXFP4", "kimi-k3/Q4_K_M")
TOKENS, MERGES = 150_000, 280_000


def median_s(work: Callable[[], object], runs: int) -> float:
    """Median time of `runs` runs."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def peak_bytes(work: Callable[[], object]) -> int:
    """Most memory that Python holds at once during `work`."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def file_with_hole(folder: Path, content: bytes, model: Model) -> Path:
    """The header as a file of full size, which the package wants to map."""
    path = folder / "model.gguf"
    path.write_bytes(content)
    os.truncate(path, len(content) + sum(tensor.size_bytes for tensor in model.tensors) + 32 * len(model.tensors))
    return path


def vocabulary_file(folder: Path) -> Path:
    """A header with 150,000 tokens, their scores and types, and 280,000 merges."""
    path = folder / "vocabulary.gguf"
    writer = GGUFWriter(path, "llama")
    writer.add_token_list([f"tok{n}" for n in range(TOKENS)])
    writer.add_token_scores([0.0] * TOKENS)
    writer.add_token_types([1] * TOKENS)
    writer.add_token_merges([f"a{n % 1000} b{n}" for n in range(MERGES)])
    writer.add_tensor("token_embd.weight", np.zeros((8, 32), np.uint8), raw_dtype=GGMLQuantizationType.I8)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def report(name: str, content: bytes, ours: Callable[[], object], package: Callable[[], object], runs: int) -> None:
    """One line: our time, our memory for the plain header, the package's time, the ratio."""
    ours_s, package_s = median_s(ours, runs), median_s(package, max(1, runs // 20))
    held_bytes = peak_bytes(partial(read_header, BytesIO(content)))
    sys.stdout.write(
        f"{name:40} {ours_s * 1e3:8.2f} ms {held_bytes / MIB:6.2f} MiB"
        f"   package {package_s * 1e3:9.2f} ms   {package_s / ours_s:6.1f} x\n"
    )


def main() -> None:
    """Print one line per header."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for model_name in CATALOGUE_MODELS:
            header_xz = (builtin_folder("model_db") / f"{model_name}.gguf.xz").read_bytes()
            content = lzma.decompress(header_xz)
            model = read_header(content)
            path = file_with_hole(folder, content, model)
            label = f"{model_name} ({len(model.tensors):,} tensors, xz)"
            report(label, content, partial(parse_header, header_xz), partial(GGUFReader, path), runs=60)
        path = vocabulary_file(folder)
        content = path.read_bytes()
        label = f"{TOKENS:,} tokens, {MERGES:,} merges"
        report(label, content, lambda: read_header(BytesIO(content)), partial(GGUFReader, path), runs=10)


if __name__ == "__main__":
    main()
