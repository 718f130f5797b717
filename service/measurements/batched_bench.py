"""llama-batched-bench: a table of prompt and answer speeds over numbers of streams, or the same as JSON Lines.

Source: tools/batched-bench/batched-bench.cpp:116-241 (llama.cpp in llama-cpp-python 0.3.36). With a prompt that the
streams share it is processed once.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from service.measurements.pieces import Piece
from service.measurements.runs import Figure, Flags, Run, Setup, Unread
from service.measurements.text import Text
from service.measurements.values import number, whole

TOOL: Final = "llama-batched-bench"
TABLE_FORMAT: Final = "llama-batched-bench table"
JSONL_FORMAT: Final = "llama-batched-bench jsonl"

_COLUMNS: Final[Mapping[str, str]] = {
    "PP": "pp", "TG": "tg", "B": "pl", "N_KV": "n_kv", "T_PP s": "t_pp", "S_PP t/s": "speed_pp", "T_TG s": "t_tg",
    "S_TG t/s": "speed_tg", "T s": "t", "S t/s": "speed",
}  # fmt: skip
_SETTINGS: Final = re.compile(r"(?:main|operator\(\)|\w+):\s*(n_kv_max\s*=.*)")
_SETTING: Final = re.compile(r"(\w+)\s*=\s*(-?\w+)")
_AUTO: Final = "-1"
TELLING_KEYS: Final = frozenset({"pp", "tg", "pl", "speed_pp", "speed_tg"})


def read_batched_table(text: Text, at: int) -> Piece | None:
    """The settings or the table that begins at line `at`, None where neither does."""
    settings: Mapping[str, str] = {}
    start = at
    if match := _SETTINGS.search(text.lines[at]):
        settings = dict(_SETTING.findall(match[1]))
        start = next((line for line in range(at + 1, len(text.lines)) if text.lines[line].strip()), at)
    columns = _columns(text.lines[start])
    if columns is None:
        return None
    piece = Piece(format=TABLE_FORMAT, end=start + 1, needs_context=True)
    for line in text.lines[start + 1 :]:
        if not line.strip().startswith("|") or _columns(line) is not None:
            break
        if not re.fullmatch(r"[|\s:-]+", line):
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            _read_row(piece, settings, columns, cells, line)
        piece.end += 1
    return piece


def batched_runs(row: Mapping[str, object], line: int) -> Iterator[Run]:
    """The figures of one row or JSON object; none where it lacks them."""
    prompt, output, streams = (whole(row.get(key, "")) for key in ("pp", "tg", "pl"))
    if not prompt or output is None or not streams:
        return
    shared = str(row.get("is_pp_shared", "0")).lower() in ("1", "true")
    setup = Setup(engine="llama.cpp", tool=TOOL, flags=_flags(row))
    base = Figure(metric="prefill_tokens_per_s", value=0.0, prompt_tokens=prompt, output_tokens=output)
    together = replace(base, metric="aggregate_decode_tokens_per_s", parallel=streams)
    rates = (
        (replace(base, parallel=1 if shared else streams), number(str(row.get("speed_pp", "")))),
        (
            together if streams > 1 else replace(base, metric="decode_tokens_per_s"),
            number(str(row.get("speed_tg", ""))),
        ),
    )
    for figure, rate in rates[: 2 if output else 1]:
        if rate is not None:
            yield Run(setup=setup, figure=replace(figure, value=rate), line=line)


def _columns(line: str) -> Sequence[str] | None:
    cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
    return [_COLUMNS[cell] for cell in cells] if len(cells) == len(_COLUMNS) and set(cells) == set(_COLUMNS) else None


def _read_row(
    piece: Piece, settings: Mapping[str, str], columns: Sequence[str], cells: Sequence[str], line: str
) -> None:
    number_of_line = piece.end + 1
    runs = []
    if len(cells) == len(columns):
        runs = list(batched_runs({**settings, **dict(zip(columns, cells, strict=True))}, number_of_line))
    if not runs:
        piece.unread.append(Unread(line=number_of_line, text=line[:200], reason="is no row of the table above"))
    piece.runs.extend(runs)


def _flags(row: Mapping[str, object]) -> Flags:
    attention = str(row.get("flash_attn", ""))
    return Flags(
        n_batch=whole(row.get("n_batch", "")),
        n_ubatch=whole(row.get("n_ubatch", "")),
        n_gpu_layers=whole(row.get("n_gpu_layers", "")),
        flash_attn={"1": True, "0": False, "True": True, "False": False}.get(attention),
        flash_attn_is_auto=attention == _AUTO,
    )
