"""`rigfit plan --engine vllm`, with flags as `vllm serve` spells them."""

import json
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from service.shells.cli import app


def rigfit(*arguments: str) -> Result:
    """`rigfit plan` of a model on two cards with vLLM."""
    question = ["plan", "qwen3-32b:FP8", "--gpu", "2x rtx-3090", "-c", "4096", "--engine", "vllm"]
    return CliRunner().invoke(app, [*question, *arguments], env={"COLUMNS": "80", "NO_COLOR": "1"})


def engine(*arguments: str) -> dict[str, Any]:
    """The engine part of its plan."""
    ran = rigfit(*arguments, "--json")
    assert ran.exit_code == 0, ran.output
    stated: dict[str, Any] = json.loads(ran.stdout)["engine"]
    return stated


def test_a_plan_for_people() -> None:
    """The same table as for any engine, and the command of this one."""
    ran = rigfit()
    assert ran.exit_code == 0
    assert ran.stdout.startswith("FITS  qwen3-32b FP8 on 2x rtx-3090")
    assert "vllm serve Qwen/Qwen3-32B-FP8 --tensor-parallel-size 2" in ran.stdout
    assert max(map(len, ran.stdout.splitlines())) <= 80


@pytest.mark.parametrize(
    ("flags", "field", "value"),
    [
        (("-tp", "2"), "tensor_parallel_size", 2),
        (("--pipeline-parallel-size", "2"), "pipeline_parallel_size", 2),
        (("-pp", "2", "--pp-layer-partition", "33,31"), "pp_layer_partition", [33, 31]),
        (("--gpu-memory-utilization", "0.95"), "gpu_memory_utilization", 0.95),
        (("--max-model-len", "8192"), "max_model_len", 8192),
        (("--max-num-batched-tokens", "1024"), "max_num_batched_tokens", 1024),
        (("--max-num-seqs", "8"), "max_num_seqs", 8),
        (("--kv-cache-dtype", "fp8"), "kv_cache_dtype", "fp8"),
        (("--enforce-eager",), "enforce_eager", True),
        (("--cpu-offload-gb", "2"), "cpu_offload_gib", 2.0),
        (("--enable-expert-parallel",), "enable_expert_parallel", True),
    ],
)
def test_a_flag_is_a_field(flags: tuple[str, ...], field: str, value: object) -> None:
    """Each is resolved in the plan as it was given."""
    assert engine(*flags)[field] == value


def test_flags_of_another_engine_are_refused() -> None:
    """None is ignored: the field is named."""
    ran = rigfit("-ngl", "3")
    assert ran.exit_code == 2
    assert "/engine/n_gpu_layers is not a field here" in ran.output
