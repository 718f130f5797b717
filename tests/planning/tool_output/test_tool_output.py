"""What tools print, read into rigs."""

import json
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.catalog.tools import TOOLS
from service.contract.rigs import EXAMPLE_OUTPUT, ParsedRig, ParseRequest
from service.core.problems import Contradiction, InvalidRequest, PlanProblem, UnknownGpu
from service.planning.tool_output import parse_rig
from tests.planner import ask, builtin_planner

SAMPLES = [json.loads(line) for line in (Path(__file__).parent / "samples.jsonl").read_text("utf-8").splitlines()]
LISTED = "  CUDA0: NVIDIA GeForce RTX 3090 (24124 MiB, 23865 MiB free)\n"
MATRIX = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tPHB\t0-3\nGPU1\tPHB\t X \t0-3\n"


def parse(text: str, *gpus: str) -> ParsedRig:
    request = ParseRequest.model_validate({"text": text, "gpus": gpus})
    return parse_rig(request, builtin_planner().catalogues.gpus)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample["name"])
def test_outputs_are_read_into_the_right_rig(sample: dict[str, Any]) -> None:
    """Cards, limits, slots, nodes, bridges and peers of real outputs, and nothing that they do not say."""
    parsed = parse(sample["text"], *sample["gpus"])
    assert parsed.rig == sample["rig"]
    assert parsed.tools == sample["tools"]
    assert len(parsed.notes) == sample["notes"]


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample["name"])
def test_a_rig_that_was_read_can_be_planned_for(sample: dict[str, Any]) -> None:
    """What parsing answers is what a request takes."""
    rig = dict(sample["rig"])
    plan = ask("llama-3.2-1b:Q4_K_M", *rig.pop("gpus"), context_tokens=1024, rig=rig)
    assert plan.devices


def test_every_tool_has_samples() -> None:
    """At least twelve whole public outputs, and one of each tool."""
    public = [sample for sample in SAMPLES if re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", sample["source"])]
    assert len(public) >= 12
    assert {tool for sample in SAMPLES for tool in sample["tools"]} == {tool.name for tool in TOOLS}


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample["name"])
@pytest.mark.parametrize(
    "change", [lambda text: text.replace("\n", "\r\n"), lambda text: f"$ tool\n{text}\n\n$ exit\n"]
)
def test_line_ends_and_prompts_change_nothing(sample: dict[str, Any], change: Any) -> None:
    """Output copied from Windows, or with the shell's prompts around it, is the same output."""
    assert parse(change(sample["text"]), *sample["gpus"]).rig == sample["rig"]


@pytest.mark.parametrize(
    ("text", "gpus", "problem", "says"),
    [
        ("hello", (), InvalidRequest, "No output of a known tool"),
        ('{"card0": 3', (), InvalidRequest, "No output of a known tool"),
        ("GPU[0]\t\t: Card series: \t\t0x744c\n", (), InvalidRequest, "names no card"),
        ("device,Card series\ncard0,0x744c\n", (), InvalidRequest, "names no card"),
        (MATRIX, (), InvalidRequest, "names no cards"),
        (MATRIX, ("3x rtx-3090",), Contradiction, "shows 2 cards, 3 are stated"),
        (LISTED, ("rtx-3090",), Contradiction, "leave gpus out"),
        (LISTED + MATRIX, (), Contradiction, "not of one machine"),
        (LISTED + "GPU 0: NVIDIA GeForce RTX 4090 (UUID: GPU-0)\n", (), Contradiction, "in one output"),
        (LISTED.replace("3090", "9990"), (), UnknownGpu, "Card 0"),
        ("  MTL0: Apple M3 Max (28753 MiB, 28753 MiB free)\n", (), UnknownGpu, "ambiguous"),
        ("| 0  NVIDIA GeForce RTX 40...  Off | 00000000:01:00.0 Off |\n", (), UnknownGpu, "Card 0"),
        ("GPU[0]\t\t: Card series: \t\t0x744c\n", (), InvalidRequest, "--showproductname"),
        (
            "== ROCm System Management Interface ==\n0    42.0c  39.02W  600Mhz  2700Mhz  0%  auto  315.0W  5%   0%\n",
            (), InvalidRequest, "--showproductname",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_a_clear_problem(
    text: str, gpus: tuple[str, ...], problem: type[PlanProblem], says: str
) -> None:
    """Garbage, cut-off names, outputs of two machines and cards that are not told say what to do instead."""
    with pytest.raises(problem, match=says):
        parse(text, *gpus)


@given(st.text(max_size=300) | st.sampled_from(SAMPLES).flatmap(lambda sample: mangled(sample["text"])))
def test_mangled_output_never_fails_otherwise(text: str) -> None:
    """Whatever is pasted is a rig or a problem."""
    with suppress(PlanProblem):
        assert parse(text or " ").rig["gpus"]


def mangled(text: str) -> st.SearchStrategy[str]:
    """A text with a part cut out."""
    return st.tuples(st.integers(0, len(text)), st.integers(0, 200)).map(
        lambda cut: text[: cut[0]] + text[cut[0] + cut[1] :]
    )


def test_long_lines_are_passed_over() -> None:
    """A line that no tool prints costs nothing and hides nothing."""
    long = "|" + " a" * 150_000 + "\n"
    assert parse(EXAMPLE_OUTPUT + long).rig == parse(EXAMPLE_OUTPUT).rig
