"""`rigfit plan`."""

import io
import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from service.gguf.writer import write_header
from service.shells.cli import app
from tests.models import load_model
from tests.planner import ask
from tests.servers import COMMAND

LLAMA_8B = "llama-3.1-8b:Q4_K_M"
QUESTION: dict[str, Any] = {
    "model": LLAMA_8B,
    "rig": {"gpus": ["rtx-3090"]},
    "workload": {"context_tokens": 8192},
}


NOT_FOR_PLANS = {"alembic", "fastapi", "numpy", "rich", "sqlalchemy", "starlette", "uvicorn"}


def rigfit(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(app, ["plan", *arguments], input=stdin, env={"COLUMNS": "80", "NO_COLOR": "1"})


def as_json(*arguments: str) -> dict[str, Any]:
    """A plan that was asked for by flags, as JSON."""
    ran = rigfit(*arguments, "--json")
    assert ran.exit_code == 0, ran.output
    answer: dict[str, Any] = json.loads(ran.stdout)
    return answer


def test_a_plan_for_people_fits_eighty_columns() -> None:
    """The table says the verdict first, then where the bytes are, and is no wider than a plain terminal."""
    ran = rigfit("llama-3.3-70b:Q4_K_M", "--gpu", "rtx-4090", "--gpu", "2x rtx-3060-12gb", "-c", "8192")
    lines = ran.stdout.splitlines()
    assert ran.exit_code == 0
    assert lines[0].startswith("FITS  llama-3.3-70b Q4_K_M on 1x rtx-4090, 2x rtx-3060-12gb")
    assert max(map(len, lines)) <= 80
    assert any(line.startswith("2 rtx-3060-12gb 64-79+out") for line in lines)
    assert any("llama-server" in line for line in lines)


@pytest.mark.parametrize(
    ("arguments", "headline"),
    [
        (("llama-3.3-70b:Q4_K_M", "--gpu", "rtx-3090", "-c", "8192"), "FITS WITH HOST OFFLOAD"),
        (("llama-3.3-70b:Q4_K_M", "--gpu", "rtx-3090", "-c", "8192", "-ngl", "all"), "DOES NOT FIT"),
        ((LLAMA_8B,), "FITS  llama-3.1-8b Q4_K_M on the host alone"),
    ],
)
def test_the_verdict_comes_first(arguments: tuple[str, ...], headline: str) -> None:
    """Whatever the answer is, it is the first thing said."""
    ran = rigfit(*arguments)
    assert ran.exit_code == 0
    assert ran.stdout.startswith(headline)


def test_flags_ask_the_same_question_as_json() -> None:
    """Flags as llama.cpp spells them mean the fields of the contract."""
    flags = shlex.split(
        "qwen3-30b-a3b:Q4_K_M --gpu rtx-3090 --gpu rtx-5090 -c 16384 -np 2 -ngl 40 -sm layer -ts 3,2 -mg 0 -b 1024 "
        "-ub 256 -fa on -ctk q8_0 -ctv q8_0 -kvu -ncmoe 4 --tool llama-bench"
    )
    stated = ask(
        "qwen3-30b-a3b:Q4_K_M",
        "rtx-3090",
        "rtx-5090",
        context_tokens=16384,
        workload={"parallel": 2},
        engine={
            "n_gpu_layers": 40,
            "split_mode": "layer",
            "tensor_split": [3, 2],
            "n_batch": 1024,
            "n_ubatch": 256,
            "flash_attn": True,
            "cache_type_k": "q8_0",
            "cache_type_v": "q8_0",
            "kv_unified": True,
            "n_cpu_moe": 4,
            "tool": "llama-bench",
        },
    )
    assert as_json(*flags) == stated.model_dump(mode="json")


@pytest.mark.parametrize(
    ("flags", "field", "value"),
    [
        (("-nkvo",), "kv_offload", False),
        (("-fa", "off"), "flash_attn", False),
        (("-no-kvu",), "kv_unified", False),
        (("-ot", r"blk\.1\.=CPU"), "override_tensor", [r"blk\.1\.=CPU"]),
        (("-fit", "on"), "fit", True),
        (("--fit", "on"), "fit_args", ["-c", "4096", "-ngl", "-1"]),
        (("-fit", "off"), "fit_args", None),
        (("-ngl", "auto"), "n_gpu_layers", 33),
        (("-ngl", "-2"), "n_gpu_layers", 33),
        (("--engine-version", "b8829"), "version", "b8829"),
        (("--engine-date", "2026-04"), "date", "2026-04"),
    ],
)
def test_a_flag_reaches_its_field(flags: tuple[str, ...], field: str, value: object) -> None:
    """Each flag is what the plan's engine says it is."""
    assert as_json(LLAMA_8B, "--gpu", "rtx-3090", "-c", "4096", *flags)["engine"][field] == value


@pytest.mark.parametrize("limit", [(), ("--power-limit", "250")])
@pytest.mark.parametrize("cards", ["2x rtx-3090 + rtx-4090", "2x rtx-3090, rtx-4090", "2x rtx-3090;rtx-4090"])
def test_cards_may_be_named_in_one_word(cards: str, limit: tuple[str, ...]) -> None:
    """As everywhere else that cards are named; a limit holds for each of them."""
    asked = (LLAMA_8B, "-c", "4096", *limit)
    assert as_json(*asked, "--gpu", cards) == as_json(*asked, "--gpu", "2x rtx-3090", "--gpu", "rtx-4090")


def test_flags_of_drafts_and_projectors_ask_the_same_question_as_json() -> None:
    """Flags as llama.cpp spells them become the objects of the contract."""
    flags = shlex.split(
        "qwen3-32b:Q4_K_M --gpu h100-sxm5-80gb -c 8192 -md qwen3-30b-a3b:Q4_K_M --spec-type draft-simple "
        r"--spec-draft-n-max 4 -ngld 40 -ctkd q8_0 -ctvd q8_0 -otd 'blk\.1\.=CPU' -ncmoed 2 --mmproj-bytes 900000000 "
        "--no-mmproj-offload"
    )
    draft = {
        "model": "qwen3-30b-a3b:Q4_K_M",
        "spec_type": "draft-simple",
        "n_max": 4,
        "n_gpu_layers": 40,
        "cache_type_k": "q8_0",
        "cache_type_v": "q8_0",
        "override_tensor": [r"blk\.1\.=CPU"],
        "n_cpu_moe": 2,
    }
    mmproj = {"weights_bytes": 900_000_000, "offload": False}
    stated = ask("qwen3-32b:Q4_K_M", "h100-sxm5-80gb", context_tokens=8192, engine={"draft": draft, "mmproj": mmproj})
    assert as_json(*flags) == stated.model_dump(mode="json")


def test_own_draft_layers_by_flag() -> None:
    """--spec-type draft-mtp without a draft model means the model's own layers."""
    plan = as_json("qwen3.6-27b-mtp:Q4_K_M", "--gpu", "rtx-5090", "-c", "4096", "--spec-type", "draft-mtp")
    assert plan["engine"]["draft"]["spec_type"] == "draft-mtp"
    shown = rigfit("qwen3.6-27b-mtp:Q4_K_M", "--gpu", "rtx-5090", "-c", "4096", "--spec-type", "draft-mtp").stdout
    assert "beside" in shown


def test_a_draft_file_is_read(tmp_path: Path) -> None:
    """The name of a GGUF file that is there means that file, for the draft too."""
    path = tmp_path / "draft.gguf"
    path.write_bytes(write_header(load_model("llama-3.2-1b:Q8_0")))
    plan = as_json("llama-3.3-70b:Q4_K_M", "--gpu", "2x rtx-5090", "-c", "4096", "-md", str(path))
    assert plan["companions"][0]["devices"][0]["weights_bytes"] > 0


def test_all_experts_on_the_host() -> None:
    """--cpu-moe means every block."""
    plan = as_json("qwen3-30b-a3b:Q4_K_M", "--gpu", "rtx-3090", "-c", "4096", "-cmoe")
    assert plan["engine"]["n_cpu_moe"] == 48


def test_a_file_is_planned(tmp_path: Path) -> None:
    """The name of a GGUF file that is there means that file."""
    path = tmp_path / "mine.gguf"
    path.write_bytes(write_header(load_model("llama-3.2-1b:Q4_K_M")))
    assert as_json(str(path), "--gpu", "rtx-3090", "-c", "2048")["model"]["architecture"] == "llama"


def test_a_problem_for_people_is_a_sentence() -> None:
    """Without --json a problem is said on stderr, with what was close, and the exit status is 2."""
    ran = rigfit(LLAMA_8B, "--gpu", "A100")
    assert ran.exit_code == 2
    assert ran.stdout == ""
    assert ran.stderr.startswith("rigfit: Unknown GPU: ")
    assert "a100-sxm4-80gb" in ran.stderr


@pytest.mark.parametrize("arguments", [(LLAMA_8B, "--gpu", "rtx-3090", "-c", "0", "--json"), ("--request", "-")])
def test_a_problem_for_programs_is_json(arguments: tuple[str, ...]) -> None:
    """With --json or --request a problem is JSON on stdout, and the exit status is 2."""
    question = json.dumps(QUESTION | {"workload": {"context_tokens": 0}})
    ran = rigfit(*arguments, stdin=question)
    assert ran.exit_code == 2
    assert json.loads(ran.stdout)["type"] == "/problems/invalid-request"


def test_one_request_from_a_file(tmp_path: Path) -> None:
    """A request in a file gives its plan as JSON."""
    path = tmp_path / "question.json"
    path.write_text(json.dumps(QUESTION))
    ran = rigfit("--request", str(path))
    assert ran.exit_code == 0
    assert json.loads(ran.stdout)["model"]["name"] == "llama-3.1-8b"


@pytest.mark.parametrize("option", ["--request", "--requests"])
def test_a_file_that_is_not_there(option: str, tmp_path: Path) -> None:
    """A file that cannot be read is a problem, not a traceback."""
    ran = rigfit(option, str(tmp_path / "absent"))
    assert ran.exit_code == 2
    assert "cannot be read" in ran.output


def test_no_question_at_all() -> None:
    """Without a model or a request the command says what it wants."""
    ran = rigfit()
    assert ran.exit_code == 2
    assert "name a model" in ran.stderr


def test_many_requests_keep_their_order() -> None:
    """Each line gives one line, in order; bad ones give their problem and harm no other."""
    lines = [json.dumps(QUESTION), "", "{", json.dumps({"model": "nothing"}), "[1]", json.dumps(QUESTION)]
    ran = rigfit("--requests", "-", stdin="\n".join(lines))
    answers = [json.loads(line) for line in ran.stdout.splitlines()]
    assert ran.exit_code == 0
    assert [next(iter(answer)) for answer in answers] == ["plan", "problem", "problem", "problem", "plan"]
    assert answers[0] == answers[-1]
    assert answers[1]["problem"]["instance"] == "line 3"
    assert answers[2]["problem"]["type"] == "/problems/unknown-model"


def test_answers_stream() -> None:
    """A line is answered before the next one is sent."""
    with subprocess.Popen(
        [COMMAND, "plan", "--requests", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for tokens in (2048, 4096):
            question = QUESTION | {"workload": {"context_tokens": tokens}}
            process.stdin.write(json.dumps(question).encode() + b"\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["plan"]["workload"]["context_tokens"] == tokens
        process.stdin.close()
        assert process.wait() == 0


def test_a_plan_starts_without_what_only_serving_needs() -> None:
    """Planning imports neither the web framework nor the database library nor the table printer."""
    program = (
        "import sys\n"
        "from service.shells.cli import app\n"
        "try:\n"
        "    app(['plan', '--requests', '-'])\n"
        "except SystemExit:\n"
        "    pass\n"
        f"print(sorted({NOT_FOR_PLANS} & set(sys.modules)))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], input=json.dumps(QUESTION).encode(), check=True, capture_output=True
    )
    *answers, loaded = io.BytesIO(ran.stdout)
    assert len(answers) == 1
    assert loaded.strip() == b"[]"
