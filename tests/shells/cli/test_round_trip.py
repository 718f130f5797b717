"""What a command says is read back by `rigfit plan` and by llama-bench's rules."""

import shlex
from dataclasses import replace
from typing import Any

import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st

from service.contract.engine import LlamaCppEngine
from service.contract.validation import validate_request
from service.core.engines.llamacpp.command import command_of
from service.core.engines.llamacpp.settings import LlamaCppSettings, OverrideTensor
from service.core.types import Workload
from service.planning.settings import settings_of
from service.shells.cli import app
from service.shells.cli.flags import question_of
from tests.core.engines.llamacpp.flag_parser import parse
from tests.models import load_model
from tests.rigs import gpu, rig

MODEL = load_model("qwen3-30b-a3b:Q4_K_M")
CARDS = rig(gpu("cuda"), gpu("cuda", 12), gpu("cuda", 8))
BLOCKS = 48
CACHE_TYPES = st.sampled_from([None, "f32", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1"])
SHARES = st.floats(2.0**-126, 1e6, allow_nan=False) | st.integers(0, 99).map(float)
# a comma ends an entry, the first = its pattern
PATTERNS = st.text(st.characters(exclude_categories=["Cc", "Cs"], exclude_characters=",="), min_size=1, max_size=12)
OVERRIDES = st.builds(
    OverrideTensor, pattern=PATTERNS, buffer_type=st.sampled_from(["CPU", "CUDA0", "CUDA1", "CUDA2"])
)  # fmt: skip
SETTINGS = st.builds(
    LlamaCppSettings,
    split_mode=st.sampled_from([None, "none", "row", "tensor"]),
    main_gpu=st.integers(0, 2),
    devices=st.none() | st.permutations(["CUDA0", "CUDA1", "CUDA2"]).map(tuple),
    tensor_split=st.none() | st.tuples(SHARES, SHARES, SHARES),
    n_gpu_layers=st.sampled_from([None, "all"]) | st.integers(0, BLOCKS + 1),
    n_batch=st.integers(1, 2**20),
    n_ubatch=st.integers(1, 2**20),
    flash_attn=st.sampled_from([None, True, False]),
    cache_type_k=CACHE_TYPES,
    cache_type_v=CACHE_TYPES,
    kv_unified=st.sampled_from([None, True]),
    swa_full=st.booleans(),
    n_cpu_moe=st.none() | st.integers(1, BLOCKS),
    override_tensor=st.lists(OVERRIDES, max_size=3).map(tuple),
    kv_offload=st.booleans(),
)
WORKLOADS = st.builds(
    Workload,
    context_tokens=st.integers(1, 2**20),
    parallel=st.integers(1, 256),
    prompt_tokens=st.integers(1, 2**16),
    cached_tokens=st.integers(0, 2**16),
    output_tokens=st.integers(1, 2**16),
)


def plain(given: LlamaCppSettings) -> LlamaCppSettings:
    """The same settings in one spelling: all layers unless a number is said, a main card only where it counts."""
    counts = given.split_mode in ("none", "row")
    return replace(given, n_gpu_layers=given.n_gpu_layers or "all" if given.n_gpu_layers != 0 else 0,
                   main_gpu=given.main_gpu if counts else 0)  # fmt: skip


def question_of_command(argv: tuple[str, ...]) -> dict[str, Any]:
    """What `rigfit plan` understands of llama-server's arguments; the model's file is its name here."""
    program, flag, _, *words = argv
    assert (program, flag) == ("llama-server", "-m")
    command = typer.main.get_command(app).commands["plan"]  # type: ignore[attr-defined]
    flags = command.make_context("plan", words).params
    return question_of(flags)


def settings_of_question(question: dict[str, Any]) -> LlamaCppSettings:
    """The engine's settings of a question."""
    engine = validate_request({"model": "x", **question}).engine
    assert isinstance(engine, LlamaCppEngine)
    return settings_of(engine)


@settings(max_examples=150, deadline=None)
@given(fixed=SETTINGS, workload=WORKLOADS)
def test_a_command_says_the_settings_it_was_made_of(fixed: LlamaCppSettings, workload: Workload) -> None:
    """Any settings: the server takes the command, and `rigfit plan` with its flags plans the same settings."""
    argv = command_of(MODEL, CARDS, fixed, workload).argv
    assert parse(argv)["-m"] == "qwen3-30b-a3b-Q4_K_M.gguf"
    question = question_of_command(argv)
    assert question["workload"] == {"context_tokens": workload.context_tokens, "parallel": workload.parallel}
    assert settings_of_question(question) == plain(fixed)


@settings(max_examples=150, deadline=None)
@given(fixed=SETTINGS, workload=WORKLOADS)
def test_a_measurement_is_of_the_same_placement(fixed: LlamaCppSettings, workload: Workload) -> None:
    """Any settings: llama-bench takes the line, and its flags with the server's separators say the same placement."""
    line = command_of(MODEL, CARDS, fixed, workload).verify
    words = shlex.split(line)
    found = parse(words[words.index("llama-bench") :])
    shown = {flag: value for flag, value in found.items() if flag in ("-sm", "-mg", "-b", "-ub", "-ctk", "-ctv", "-fa")}
    shown |= {flag: found[flag] for flag in ("-ngl", "-ncmoe") if flag in found}
    shown |= {flag: (found[flag] or "").replace("/", ",") for flag in ("-ts", "-dev") if flag in found}
    words = [word for flag, value in shown.items() for word in (flag, value or "")]
    if "-nkvo" in found:
        words.append("-nkvo")
    read = settings_of_question(question_of_command(("llama-server", "-m", "x", *words)))
    kept = replace(plain(fixed), kv_unified=None, swa_full=False, override_tensor=())
    types = (None if each == "f32" else each for each in (fixed.cache_type_k, fixed.cache_type_v))
    key_type, value_type = types
    kept = replace(kept, cache_type_k=key_type, cache_type_v=value_type)
    assert replace(read, n_gpu_layers=read.n_gpu_layers if read.n_gpu_layers is not None else "all") == kept
    entries = (found.get("-ot") or "").split(";") if fixed.override_tensor else []
    assert [entry.rpartition("=")[2] for entry in entries] == [each.buffer_type for each in fixed.override_tensor]


@pytest.mark.parametrize("asked", [{"split_mode": "none", "main_gpu": -1}])
def test_the_host_alone_is_said_and_read(asked: dict[str, Any]) -> None:
    """-dev none in both programs is split mode none without a card."""
    command = command_of(MODEL, CARDS, LlamaCppSettings(**asked), Workload(context_tokens=4096))
    question = question_of_command(command.argv)
    assert (question["engine"]["split_mode"], question["engine"]["main_gpu"]) == ("none", -1)
    assert "-dev none" in command.verify


def test_a_separator_in_a_pattern_is_named_by_its_code() -> None:
    """llama-bench parts entries at semicolons, which a pattern therefore names by their code."""
    overrides = tuple(
        OverrideTensor(pattern=pattern, buffer_type="CPU") for pattern in ("a;b", r"a\;b", r"a\\;", r"\d")
    )
    line = command_of(MODEL, CARDS, LlamaCppSettings(override_tensor=overrides), Workload(context_tokens=4096)).verify
    words = shlex.split(line)
    assert words[words.index("-ot") + 1] == r"a\x3bb=CPU;a\x3bb=CPU;a\\\x3b=CPU;\d=CPU"
