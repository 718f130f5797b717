"""llama-bench -o md, its default: a table whose columns are those that differ from the defaults.

Source: markdown_printer, tools/llama-bench/llama-bench.cpp:1850 (llama.cpp in llama-cpp-python 0.3.36). Tables of 2023
write "pp 512" and "llama 7B mostly Q4_0". What was measured on stands around the table.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from service.measurements.llama_bench_rows import TOOL, devices_of, overrides_of, shares_of, test_figure
from service.measurements.pieces import Piece
from service.measurements.runs import Figure, Flags, ModelSeen, Run, Setup, Unread
from service.measurements.text import Text
from service.measurements.values import device_names, flag, printed_bytes, printed_count, rate_and_spread, whole

FORMAT = "llama-bench md"

NAMES: Final[Mapping[str, str]] = {
    "ngl": "n_gpu_layers", "sm": "split_mode", "threads": "n_threads", "nkvo": "no_kv_offload", "fa": "flash_attn",
    "mmap": "use_mmap", "lm": "load_mode", "embd": "embeddings", "nopo": "no_op_offload", "noh": "no_host",
    "rpk": "repack", "dev": "devices", "ts": "tensor_split", "ot": "tensor_buft_overrides", "fitt": "fit_target",
    "fitc": "fit_min_ctx", "mg": "main_gpu", "ncmoe": "n_cpu_moe",
}  # fmt: skip
"""Columns that are shown by another name."""

_TEST: Final = re.compile(r"(?:pp\s?(\d+))?\s*\+?\s*(?:tg\s?(\d+))?(?:\s*@\s*d\s?(\d+))?")


def read_markdown(text: Text, at: int) -> Piece | None:
    """The table that begins at line `at`, None where none does; it ends at the first line without cells."""
    columns = _columns(text.lines[at])
    if columns is None:
        return None
    piece = Piece(format=FORMAT, end=at + 1, needs_context=True)
    for line in text.lines[at + 1 :]:
        if not line.strip().startswith("|") or _columns(line) is not None:
            break
        if not re.fullmatch(r"[|\s:-]+", line):
            _read_row(piece, columns, line)
        piece.end += 1
    return piece


def _cells(line: str) -> Sequence[str]:
    return [cell.strip(" \t`*") for cell in line.strip().strip("|").split("|")]


def _columns(line: str) -> Sequence[str] | None:
    if not line.strip().startswith("|"):
        return None
    columns = [NAMES.get(cell.lower(), cell.lower()) for cell in _cells(line)]
    return columns if {"model", "test", "t/s"} <= set(columns) else None


def _read_row(piece: Piece, columns: Sequence[str], line: str) -> None:
    number, cells = piece.end + 1, _cells(line)
    if len(cells) != len(columns):
        reason = f"has {len(cells)} cells under {len(columns)} columns"
        piece.unread.append(Unread(line=number, text=line[:200], reason=reason))
        return
    row = dict(zip(columns, cells, strict=True))
    figure = _figure(row)
    if figure is None:
        piece.unread.append(Unread(line=number, text=line[:200], reason="has no test with a rate"))
        return
    piece.runs.append(Run(setup=_setup(row), figure=figure, line=number))


def _figure(row: Mapping[str, str]) -> Figure | None:
    test, rate = _TEST.fullmatch(row["test"].lower()), rate_and_spread(row["t/s"])
    if test is None or rate is None or not (test[1] or test[2]):
        return None
    return test_figure(int(test[1] or 0), int(test[2] or 0), int(test[3] or 0), *rate)


def _setup(row: Mapping[str, str]) -> Setup:
    return Setup(
        engine="llama.cpp",
        tool=TOOL,
        model=ModelSeen(
            description=row["model"] or None,
            size_bytes=printed_bytes(row.get("size", "")),
            parameters=printed_count(row.get("params", "")),
        ),
        flags=_flags(row),
        backends=device_names(row.get("backend", "")),
    )


def _flags(row: Mapping[str, str]) -> Flags:
    attention = row.get("flash_attn")
    return Flags(
        n_batch=whole(row.get("n_batch", "")),
        n_ubatch=whole(row.get("n_ubatch", "")),
        cache_type_k=row.get("type_k"),
        cache_type_v=row.get("type_v"),
        n_gpu_layers=whole(row.get("n_gpu_layers", "")),
        n_cpu_moe=whole(row.get("n_cpu_moe", "")) or None,
        split_mode=row.get("split_mode"),
        main_gpu=whole(row.get("main_gpu", "")),
        kv_offload=not flag(row.get("no_kv_offload", "0")),
        flash_attn=None if attention is None else flag(attention),
        flash_attn_is_auto=attention in ("-1", "auto"),
        devices=devices_of(row.get("devices")),
        tensor_split=shares_of(row.get("tensor_split")),
        override_tensor=overrides_of(row.get("tensor_buft_overrides")),
    )
