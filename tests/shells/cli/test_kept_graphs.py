"""Graphs that are kept on disk change no answer, whatever happens to the processes that share them."""

import json
import os
import resource
import signal
import sqlite3
import subprocess
import time
from contextlib import closing
from pathlib import Path

import pytest

from service.core.units import MIB
from service.shells.cli.answers import MANY_LINES
from service.store.graph_file import NAME
from tests.servers import COMMAND

MODELS = (
    "llama-3.2-3b:Q4_K_M", "llama-3.2-3b:Q8_0", "gemma-3-4b:Q4_K_M", "qwen3-30b-a3b:Q4_K_M", "gpt-oss-20b:MXFP4",
    "phi-4:Q4_K_M", "mixtral-8x7b:Q4_K_M", "granite-4.0-h-micro:Q4_K_M", "lfm2-8b-a1b:Q4_K_M", "mistral-7b:Q4_K_M",
    "nemotron-nano-9b-v2:Q4_K_M", "minimax-m2:Q4_K_M", "no-such-model",
)  # fmt: skip
GPUS = ("rtx-3090", "2x rtx-3090", "rx-7900-xtx")
SETTINGS: tuple[dict[str, object], ...] = ({"n_gpu_layers": "all"}, {"flash_attn": False, "n_gpu_layers": 12}, {})
LINES = [
    json.dumps(
        {
            "model": model,
            "rig": {"gpus": [GPUS[number % len(GPUS)]]},
            "workload": {"context_tokens": 4096 + 1024 * number},
            "engine": SETTINGS[min(number // 5, 2)],
        }
    )
    for model in MODELS
    for number in range(16)
]
ROOM_BYTES = 8192


def kept_in(folder: Path) -> dict[str, str]:
    """Settings by which graphs are kept in a folder."""
    return {"RIGFIT_CACHE_BYTES": str(64 * MIB), "RIGFIT_CACHE_FOLDER": str(folder)}


def started(folder: Path | None) -> "subprocess.Popen[bytes]":
    """`rigfit plan --requests`, which has all its lines; folder: where graphs are kept, if anywhere."""
    chosen = kept_in(folder) if folder else {}
    process = subprocess.Popen(
        [COMMAND, "plan", "--requests", "-"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ | chosen,
        start_new_session=True,
    )  # fmt: skip
    assert process.stdin is not None
    process.stdin.write("\n".join(LINES).encode())
    process.stdin.close()
    process.stdin = None
    return process


def answers(process: "subprocess.Popen[bytes]") -> bytes:
    """Everything it answers, and nothing that it complains about."""
    out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, b"")
    return out


@pytest.fixture(scope="module")
def alone() -> bytes:
    """The answers where nothing is kept."""
    assert len(LINES) > MANY_LINES
    found = answers(started(None))
    assert len(found.splitlines()) == len(LINES)
    return found


def graphs_in(folder: Path) -> int:
    """Graphs that are kept in a whole file, none where it was only just begun."""
    with closing(sqlite3.connect(folder / NAME)) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        if not database.execute("SELECT 1 FROM sqlite_schema WHERE name = 'graphs'").fetchone():
            return 0
        return int(database.execute("SELECT count(*) FROM graphs").fetchone()[0])


def test_answers_are_the_same_to_the_byte(alone: bytes, tmp_path: Path) -> None:
    """Two processes at once on a folder that is not there yet, and a third after them, for which all is kept."""
    both = [started(tmp_path / "cache"), started(tmp_path / "cache")]
    assert [answers(process) == alone for process in both] == [True, True]
    kept = graphs_in(tmp_path / "cache")
    assert kept > len(MODELS)
    assert answers(started(tmp_path / "cache")) == alone
    assert graphs_in(tmp_path / "cache") == kept


def test_a_killed_writer_leaves_a_whole_file(alone: bytes, tmp_path: Path) -> None:
    """All its processes are killed, at several moments from the first write on; what they wrote is used."""
    for moment in range(3):
        process = started(tmp_path)
        while not (tmp_path / NAME).exists():
            time.sleep(0.01)
        time.sleep(0.3 * moment)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        assert graphs_in(tmp_path) >= 0
    assert answers(started(tmp_path)) == alone
    assert graphs_in(tmp_path) > len(MODELS)


def test_what_was_kept_before_processes_are_forked_is_theirs_too(alone: bytes, tmp_path: Path) -> None:
    """A few lines are answered by one process, which reads and writes the file, before many are by several."""
    few = 5
    process = subprocess.Popen(
        [COMMAND, "plan", "--requests", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=os.environ | kept_in(tmp_path),
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("".join(f"{line}\n" for line in LINES[:few]).encode())
    process.stdin.flush()
    found = b"".join([process.stdout.readline() for _ in range(few)])
    out, err = process.communicate("\n".join(LINES[few:]).encode(), timeout=120)
    assert (found + out, err) == (alone, b"")
    assert answers(started(tmp_path)) == alone


def test_a_full_disk_is_said_once_and_planned_without(alone: bytes, tmp_path: Path) -> None:
    """No file may grow: each process that would write says so, and answers as if nothing could be kept."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (ROOM_BYTES, limits[1]))
    try:
        process = started(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    out, err = process.communicate(timeout=120)
    said = err.decode().splitlines()
    assert out == alone
    assert 1 <= len(said) <= (os.cpu_count() or 1)
    assert all("kept graphs" in line and "plans are made without" in line for line in said)


def test_a_plan_keeps_its_graphs_before_it_ends(tmp_path: Path) -> None:
    """The command that answers one question too."""
    chosen = kept_in(tmp_path)
    command = [str(COMMAND), "plan", "llama-3.2-3b:Q4_K_M", "--gpu", "rtx-3090", "-c", "8192", "--json"]
    first, again, without = (
        subprocess.run(command, env=os.environ | some, check=True, capture_output=True).stdout
        for some in (chosen, chosen, {})
    )
    assert first == again == without
    assert graphs_in(tmp_path) > 0
