"""`rigfit rigs`, `rigfit rigs parse` and the flags of `rigfit plan` about the machine around the cards."""

import json
import subprocess

import pytest

from service.contract.rigs import EXAMPLE_OUTPUT
from tests.servers import COMMAND


def run(*arguments: str, pasted: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run([COMMAND, *arguments], input=pasted, check=False, capture_output=True, text=True)


def test_rigs_are_listed() -> None:
    """A search shows the rigs with all its words."""
    lines = run("rigs", "3090", "nvlink").stdout.splitlines()
    assert [line.split()[0] for line in lines if not line.startswith(" ")] == ["rig", "2x-3090-nvlink"]
    assert "no rig has" in run("rigs", "nothing", "like", "it").stdout


def test_pasted_output_becomes_a_rig() -> None:
    """What nvidia-smi printed goes in, the rig of a request comes out."""
    ran = run("rigs", "parse", pasted=EXAMPLE_OUTPUT)
    assert ran.returncode == 0
    assert json.loads(ran.stdout) == {
        "gpus": [{"gpu": "rtx-3090", "power_limit_w": 280.0, "pcie_lanes": 8, "count": 2}]
    }
    refused = run("rigs", "parse", pasted="hello")
    assert refused.returncode == 2
    assert "No output of a known tool" in refused.stderr


@pytest.mark.parametrize(
    ("flags", "code"),
    [
        (["--psu", "850"], "psu-sustained"),
        (["--psu", "1700", "--volts", "120"], "psu-low-line"),
        (["--volts", "120", "--amps", "5"], "circuit"),
        (["--slots", "5"], "slots"),
        (["--power-limit", "120"], "pl-floor"),
        (["--p2p"], "p2p-sanity"),
        (["--cpu", "Ryzen 9 7950X"], "lanes"),
    ],
)
def test_flags_state_the_machine(flags: list[str], code: str) -> None:
    """Each flag reaches the rule that reads it."""
    plan = json.loads(
        run("plan", "llama-3.1-8b:Q4_K_M", "--gpu", "2x rtx-3090", "-c", "4096", *flags, "--json").stdout
    )  # fmt: skip
    assert code in {warning["code"] for warning in plan["warnings"]}


def test_a_rig_is_named_and_priced() -> None:
    """A preset stands for its cards, and the terminal shows power, energy and its price."""
    shown = run("plan", "llama-3.1-8b:Q4_K_M", "--rig", "4x-3090-300w", "-c", "4096", "--tariff", "0.3").stdout
    assert "4x rtx-3090" in shown
    assert "power 1582 W at peak" in shown
    assert "which cost" in shown
