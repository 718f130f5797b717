"""Commands of many plans, as llama.cpp's own programs would read them."""

import shlex
from collections.abc import Mapping
from datetime import date
from itertools import dropwhile
from typing import Any, NamedTuple

import pytest

from service.contract.plan import Plan
from service.core.problems import Unsupported
from tests.core.engines.llamacpp.flag_parser import NEWEST, parse
from tests.planner import ask

LLAMA_8B, LLAMA_70B, LLAMA_1B = "llama-3.1-8b:Q4_K_M", "llama-3.3-70b:Q4_K_M", "llama-3.2-1b:Q8_0"
QWEN_32B, MOE, GEMMA, GPT_OSS = "qwen3-32b:Q4_K_M", "qwen3-30b-a3b:Q4_K_M", "gemma-3-27b:Q4_K_M", "gpt-oss-20b:MXFP4"
TWO, MIXED = ("2x rtx-3090",), ("rtx-5090", "rtx-3090", "rtx-3060-12gb")
RPC = {"gpu": "rtx-3090", "backend": "rpc"}
VULKAN = {"gpu": "rtx-4090", "backend": "vulkan"}
SERVERS: tuple[object, ...] = (RPC, RPC, "rtx-3090")
EXPERTS = r"blk\.([0-9]|1[0-9])\.ffn_(up|down|gate)_exps=CPU"


class Row(NamedTuple):
    """A plan, and flags with the values they must have in its command; None for a switch."""

    model: str
    gpus: tuple[object, ...]
    engine: Mapping[str, Any] = {}
    workload: Mapping[str, Any] = {"context_tokens": 8192}
    flags: Mapping[str, str | None] = {}
    as_of: date = NEWEST


def old(day: str, **engine: Any) -> dict[str, Any]:
    """Engine fields of an older build."""
    return {"date": day, **engine}


PLANS = (
    Row(LLAMA_8B, ("rtx-3090",), flags={"-c": "8192", "-np": "1", "-ngl": "all", "-fit": "off"}),
    Row(LLAMA_8B, ("rtx-3090",), workload={"context_tokens": 16384, "parallel": 4}, flags={"-np": "4"}),
    Row(LLAMA_8B, ("rtx-3090",), {"kv_unified": True}, {"context_tokens": 16384, "parallel": 4}, {"-kvu": None}),
    Row(LLAMA_8B, ("rtx-3090",), {"tool": "llama-bench"}, flags={"-p": "1024", "-n": "256"}),
    Row(LLAMA_8B, ("rtx-3090",), {"tool": "llama-bench"}, {"context_tokens": 1280}, {"-pg": "1024,256", "-n": "0"}),
    Row(LLAMA_8B, ("rtx-3090",), {"cache_type_k": "q8_0", "cache_type_v": "q4_1"}, flags={"-ctv": "q4_1"}),
    Row(LLAMA_8B, ("rtx-3090",), {"cache_type_k": "bf16", "cache_type_v": "iq4_nl"}, flags={"-ctv": "iq4_nl"}),
    Row(LLAMA_8B, ("rtx-3090",), {"flash_attn": False}, flags={"-fa": "off"}),
    Row(LLAMA_8B, ("rtx-3090",), {"flash_attn": True}, flags={"-fa": "on"}),
    Row(LLAMA_8B, ("rtx-3090",), {"n_batch": 4096, "n_ubatch": 1024}, flags={"-b": "4096", "-ub": "1024"}),
    Row(LLAMA_8B, ("rtx-3090",), {"n_gpu_layers": 20}, flags={"-ngl": "20"}),
    Row(LLAMA_8B, ("rtx-3090",), {"n_gpu_layers": 0}, flags={"-ngl": "0"}),
    Row(LLAMA_8B, ("rtx-3090",), {"kv_offload": False}, flags={"-nkvo": None}),
    Row(LLAMA_8B, (), flags={"-c": "8192"}),
    Row(LLAMA_8B, ("rtx-3090",), {"split_mode": "none", "main_gpu": -1}, flags={"-dev": "none"}),
    Row(LLAMA_8B, MIXED, {"devices": [2]}, flags={"-dev": "CUDA2"}),
    Row(LLAMA_8B, MIXED, {"devices": ["CUDA0"]}, flags={"-dev": "CUDA0"}),
    Row(LLAMA_8B, MIXED, {"devices": ["CUDA2", "CUDA0"], "tool": "llama-bench"}, flags={"-dev": "CUDA2/CUDA0"}),
    Row(LLAMA_8B, MIXED, {"split_mode": "none", "main_gpu": 1}, flags={"-sm": "none", "-mg": "1"}),
    Row(LLAMA_8B, ("rx-7900-xtx",), flags={"-ngl": "all"}),
    Row(LLAMA_8B, ("arc-b580",), flags={"-ngl": "all"}),
    Row(LLAMA_8B, (VULKAN,), flags={"-ngl": "all"}),
    Row(LLAMA_8B, ("rtx-4090", "rx-7900-xtx"), {"tensor_split": [2, 1]}, flags={"-ts": "2,1"}),
    Row(LLAMA_70B, TWO),
    Row(LLAMA_70B, TWO, {"tensor_split": [1, 1]}, flags={"-ts": "1,1"}),
    Row(LLAMA_70B, TWO, {"tensor_split": [0.18, 0.39]}, flags={"-ts": "0.18,0.39"}),
    Row(LLAMA_70B, TWO, {"split_mode": "tensor"}, flags={"-sm": "tensor"}),
    Row(LLAMA_70B, TWO, {"split_mode": "tensor", "tensor_split": [3, 2]}, flags={"-sm": "tensor", "-ts": "3,2"}),
    Row(LLAMA_70B, TWO, {"tool": "llama-bench", "split_mode": "tensor", "tensor_split": [3, 2]}, flags={"-ts": "3/2"}),
    Row(LLAMA_70B, MIXED),
    Row(LLAMA_70B, MIXED, workload={"context_tokens": None}),
    Row(LLAMA_70B, ("rtx-3090",)),
    Row(LLAMA_70B, ("rtx-3090",), {"fit": True}),
    Row(LLAMA_70B, SERVERS, flags={"--rpc": "rpc-server-0:50052,rpc-server-1:50052"}),
    Row(LLAMA_70B, SERVERS, {"tool": "llama-bench"}, flags={"-rpc": "rpc-server-0:50052,rpc-server-1:50052"}),
    Row(LLAMA_70B, SERVERS, {"override_tensor": ["a=RPC1"]}, flags={"-ot": "a=RPC0[rpc-server-1:50052]"}),
    Row(LLAMA_70B, ("8x rtx-2080-ti",)),
    Row(LLAMA_70B, TWO, {"draft": LLAMA_1B}, {"context_tokens": 4096}, {"-md": "llama-3.2-1b-Q8_0.gguf"}),
    Row(
        LLAMA_70B, ("h100-sxm5-80gb",),
        {"draft": {"model": LLAMA_1B, "n_max": 8, "n_gpu_layers": 4, "cache_type_k": "q8_0"}},
        flags={"--spec-draft-n-max": "8", "-ngld": "4", "-ctkd": "q8_0"},
    ),
    Row(GEMMA, TWO, {"mmproj": {"weights_bytes": 857_000_000}}, flags={"--mmproj": "mmproj.gguf"}),
    Row(GEMMA, TWO, {"mmproj": {"weights_bytes": 10**9, "offload": False}}, flags={"--no-mmproj-offload": None}),
    Row(GEMMA, TWO, {"swa_full": True}, flags={"--swa-full": None}),
    Row(MOE, ("rtx-3060-12gb",)),
    Row(MOE, ("rtx-3060-12gb",), {"n_cpu_moe": 20}, flags={"-ncmoe": "20"}),
    Row(MOE, ("rtx-3060-12gb",), {"n_cpu_moe": 1_000_000}, flags={"-ncmoe": "48"}),
    Row(MOE, ("rtx-3060-12gb",), {"override_tensor": [EXPERTS]}, flags={"-ot": EXPERTS}),
    Row(MOE, TWO, {"override_tensor": [f"{EXPERTS},output=CUDA1"]}, flags={"-ot": f"{EXPERTS},output=CUDA1"}),
    Row(MOE, TWO, {"tool": "llama-bench", "override_tensor": ["a;b=CPU", "c=CPU"]}, flags={"-ot": r"a\x3bb=CPU;c=CPU"}),
    Row(GPT_OSS, ("rtx-4060-ti-16gb",)),
    Row(GPT_OSS, ("rtx-3060-12gb",)),
    Row(
        LLAMA_8B, ("rtx-3090",), old("2024-05", flash_attn=True, kv_unified=True), flags={"-fa": None, "-ngl": "999"},
        as_of=date(2024, 5, 31),
    ),
    Row(LLAMA_8B, ("rtx-3090",), old("2024-02", n_ubatch=256), flags={"-b": "256"}, as_of=date(2024, 2, 29)),
    Row(QWEN_32B, TWO, old("2025-05", flash_attn=True), flags={"-fa": None}, as_of=date(2025, 5, 31)),
    Row(QWEN_32B, TWO, old("2025-04-10", override_tensor=["a=CPU"]), flags={"-ot": "a=CPU"}, as_of=date(2025, 4, 10)),
    Row(QWEN_32B, TWO, old("2024-12", devices=["CUDA1"]), flags={"-dev": "CUDA1"}, as_of=date(2024, 12, 31)),
    Row(MOE, ("rtx-3060-12gb",), old("2025-08-20", n_cpu_moe=9), flags={"-ncmoe": "9"}, as_of=date(2025, 8, 20)),
    Row(MOE, TWO, old("2025-10", flash_attn=True), flags={"-fa": "on"}, as_of=date(2025, 10, 31)),
    Row(MOE, TWO, old("2025-10", tool="llama-bench"), flags={"-fa": "1"}, as_of=date(2025, 10, 31)),
    Row(GEMMA, TWO, old("2025-03", swa_full=True), as_of=date(2025, 3, 31)),
    Row(LLAMA_70B, TWO, {"version": "b8829", "split_mode": "row"}, flags={"-sm": "row"}, as_of=date(2026, 4, 18)),
    Row(LLAMA_70B, TWO, {"version": "b7423"}, flags={"-ngl": "999", "-fit": "off"}, as_of=date(2025, 12, 15)),
)  # fmt: skip


def plan_of(row: Row) -> Plan:
    """The plan of a row."""
    return ask(row.model, *row.gpus, engine=row.engine, workload=row.workload)


def without_variables(line: str) -> list[str]:
    """The words of a line for a shell from the program on."""
    return list(dropwhile(lambda word: "=" in word, shlex.split(line)))


def test_the_table_is_long() -> None:
    """At least fifty different plans are looked at."""
    assert len({str(row) for row in PLANS}) >= 50


@pytest.mark.parametrize("row", PLANS, ids=lambda row: f"{row.model} {dict(row.engine)}"[:80])
def test_commands_are_read_by_the_programs(row: Row) -> None:
    """The program of that time takes the command and the line that measures it, with the flags that were asked for."""
    command = plan_of(row).command
    given = parse(command.argv, row.as_of)
    assert {flag: given.get(flag, "absent") for flag in row.flags} == row.flags
    assert without_variables(command.text) == command.argv
    assert parse(without_variables(command.verify), row.as_of)["-o"] == "json"


@pytest.mark.parametrize("row", PLANS[:50:7], ids=lambda row: f"{row.model} {dict(row.engine)}"[:80])
def test_every_part_of_a_command_is_explained(row: Row) -> None:
    """The notes are the environment and the arguments, in order, each with a sentence."""
    command = plan_of(row).command
    variables = [f"{name}={value}" for name, value in command.env.items()]
    said = [note.flag for note in command.notes]
    assert said[: len(variables)] == variables
    assert " ".join(said[len(variables) :]) == " ".join(command.argv[1:])
    assert all(note.meaning.endswith((".", ":")) for note in command.notes)


def test_what_must_be_left_to_no_default_is_said() -> None:
    """The server's streams, layers, context and --fit are in every command of the newest build."""
    for row in PLANS:
        if row.as_of == NEWEST and row.engine.get("tool") != "llama-bench" and row.gpus:
            assert {"-m", "-c", "-np", "-ngl", "-fit"} <= set(parse(plan_of(row).command.argv))


def test_peer_access_is_switched_on_where_it_is_said_to_work() -> None:
    """Cards that work on one layer copy directly with GGML_CUDA_P2P, once that had to be asked for."""
    together = {"split_mode": "tensor"}
    said: dict[str, Any] = {"rig": {"p2p": True}, "context_tokens": 4096}
    assert ask(LLAMA_70B, *TWO, engine=together, **said).command.env == {"GGML_CUDA_P2P": "1"}
    assert "GGML_CUDA_P2P=1 llama-bench" in ask(LLAMA_70B, *TWO, engine=together, **said).command.verify
    assert ask(LLAMA_70B, *TWO, **said).command.env == {}
    assert ask(LLAMA_70B, *TWO, engine=together, context_tokens=4096).command.env == {}
    linked: dict[str, Any] = {"rig": {"nvlink": [[0, 1]]}, "context_tokens": 4096}
    assert ask(LLAMA_70B, *TWO, engine=together, **linked).command.env == {"GGML_CUDA_P2P": "1"}
    before = together | {"date": "2026-04-10"}
    assert ask(LLAMA_70B, *TWO, engine=before, **said).command.env == {}


def test_cards_are_hidden_from_a_bench_without_a_flag_for_them() -> None:
    """Before llama-bench had -dev, the variable of the backend names the cards."""
    verify = ask(
        LLAMA_8B, *MIXED, context_tokens=4096, engine=old("2025-06", devices=["CUDA2", "CUDA0"])
    ).command.verify
    assert "CUDA_VISIBLE_DEVICES=2,0" in verify
    assert "-dev" not in verify


def test_an_old_bench_keeps_experts_on_the_host_by_pattern() -> None:
    """Between --n-cpu-moe of the server and that of llama-bench, patterns say the same."""
    verify = ask(MOE, "rtx-3060-12gb", context_tokens=4096, engine=old("2025-08-20", n_cpu_moe=2)).command.verify
    words = shlex.split(verify)
    patterns = [entry.partition("=")[0] for entry in words[words.index("-ot") + 1].split(";")]
    assert [pattern.split(r"\.")[1] for pattern in patterns] == ["0", "1"]
    assert "-ncmoe" not in words


@pytest.mark.parametrize(
    ("engine", "words"),
    [
        ({"tool": "llama-bench", "cache_type_k": "f32"}, "llama-bench has no cache of type f32"),
        (old("2024-02", flash_attn=True), "no flag for flash_attn"),
        (old("2025-01", override_tensor=["a=CPU"]), "no flag for override_tensor"),
        (old("2023-10", cache_type_k="q8_0"), "no flag for cache_type_k"),
        (old("2024-06", devices=[0]), "no --device"),
    ],
)
def test_what_no_flag_says_is_refused(engine: dict[str, Any], words: str) -> None:
    """What a program of that time cannot be told is a problem, not a command that it would not take."""
    with pytest.raises(Unsupported, match=words):
        ask(LLAMA_8B, "rtx-3090", context_tokens=4096, engine=engine)
