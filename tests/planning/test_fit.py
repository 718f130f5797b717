"""Plans of llama.cpp's own --fit."""

import shlex
from typing import Any

import pytest

from service.contract.plan import Plan
from service.core.problems import Unsupported
from tests.fit_rows import FitRow, fit_rows
from tests.planner import ask, llamacpp

GLM = "glm-4.5-air:Q4_K_M"
LLAMA_8B = "llama-3.1-8b:Q4_K_M"
LLAMA_70B = "llama-3.3-70b:Q4_K_M"
QWEN_30B_MOE = "qwen3-30b-a3b:Q4_K_M"


def fitted(model: str, *gpus: object, context_tokens: int | None = None, **engine: Any) -> Plan:
    """A plan in which llama.cpp's fit chooses."""
    return ask(model, *gpus, context_tokens=context_tokens, engine={"fit": True, **engine})


def asked_as(row: FitRow) -> Plan:
    """A row of golden/fit.jsonl as a request: RPC servers with so much free."""
    cards = [
        {"gpu": {"name": f"server {free}", "vram_bytes": free + 2**29, "backend": "rpc"}, "free_bytes": free}
        for free in row.free_bytes
    ]
    config = dict(row.config)
    return fitted(row.model, *cards, context_tokens=config.pop("ctx", None), **config)


@pytest.mark.parametrize(
    "row", [row for row in fit_rows() if row.model == QWEN_30B_MOE and len(row.free_bytes) == 2], ids=lambda row: row.id
)
def test_a_request_gets_the_arguments_that_llamacpp_prints(row: FitRow) -> None:
    """Through the contract as through the core; the plan is placed with them."""
    plan = asked_as(row)
    assert llamacpp(plan).fit
    assert llamacpp(plan).fit_args == list(row.arguments)
    assert plan.workload.context_tokens == int(row.arguments[1])
    if "-ot" in row.arguments:
        assert ",".join(llamacpp(plan).override_tensor) == row.arguments[-1].replace("device", "RPC")


def test_without_fit_the_planner_chooses_and_says_nothing_of_fit() -> None:
    """False is as good as nothing."""
    for engine in ({}, {"fit": False}):
        plan = ask(LLAMA_8B, "rtx-3090", context_tokens=8192, engine=engine)
        assert (llamacpp(plan).fit, llamacpp(plan).fit_args) == (False, None)
        assert not any("--fit" in step for step in plan.explanation)


def test_what_fits_is_left_as_it_is() -> None:
    """Nothing but the context is stated, and nothing is warned of."""
    plan = fitted(LLAMA_8B, "rtx-5090", context_tokens=8192)
    assert llamacpp(plan).fit_args == ["-c", "8192", "-ngl", "-1"]
    assert llamacpp(plan).n_gpu_layers == 33
    assert plan.fits
    assert not [warning for warning in plan.warnings if warning.code.startswith("fit")]
    assert not [advice for advice in plan.advice if advice.code == "better-than-fit"]
    assert any("changes nothing" in step for step in plan.explanation)


def test_the_command_repeats_what_was_fitted() -> None:
    """The line runs as the plan says, without fitting again."""
    plan = fitted(QWEN_30B_MOE, "rtx-4060-ti-16gb")
    argv = plan.command.argv
    assert argv[argv.index("-c") + 1] == "4096"
    assert argv[argv.index("-ngl") + 1] == "49"
    assert argv[argv.index("-ot") + 1].split(",") == llamacpp(plan).override_tensor
    assert argv[-2:] == ["-fit", "off"]
    assert shlex.split(plan.command.text) == argv


def test_a_reduced_context_is_warned_of() -> None:
    """The context that the user left open is not the trained one, and the plan says both."""
    plan = fitted(LLAMA_8B, "rtx-3060-12gb")
    (warning,) = (each for each in plan.warnings if each.code == "fit-context")
    assert warning.numbers["from_tokens"] == 131_072
    assert warning.numbers["context_tokens"] == plan.workload.context_tokens
    assert any(f"from 131,072 to {plan.workload.context_tokens:,} tokens" in step for step in plan.explanation)


def test_a_fit_that_gives_up_says_why_and_keeps_the_context() -> None:
    """With -ngl stated only the context is reduced."""
    plan = fitted(LLAMA_70B, "2x rtx-3060-12gb", n_gpu_layers="all")
    (warning,) = (each for each in plan.warnings if each.code == "fit-failed")
    assert warning.numbers["reason"] == "n_gpu_layers already set by user to -2, abort"
    assert llamacpp(plan).fit_args == ["-c", str(plan.workload.context_tokens), "-ngl", "-2"]
    assert plan.workload.context_tokens == 4096
    assert plan.verdict == "does_not_fit"


def test_draft_layers_that_push_layers_to_the_host_are_warned_of() -> None:
    """Fit counts one slot less than the loader of a model with a draft layer, so block 0 stays on the host."""
    plan = fitted(GLM, "3x rtx-3090", context_tokens=4096)
    (warning,) = (each for each in plan.warnings if each.code == "fit-leaves-layers")
    assert warning.numbers == {"host_layers": 1}
    assert plan.devices[0].layers[0][0] == 1


def test_advice_has_what_the_planners_own_choice_gains() -> None:
    """For two cards that hold the model, fit moves what need not be moved; the planner's split is compared with it."""
    plan = fitted(GLM, "3x rtx-3090", context_tokens=4096)
    (advice,) = (each for each in plan.advice if each.code == "better-than-fit")
    own = ask(GLM, "3x rtx-3090", context_tokens=4096)
    assert own.speed is not None
    assert plan.speed is not None
    assert advice.numbers["decode_tokens_per_s"] == pytest.approx(own.speed.decode_tokens_per_s.mid)
    assert advice.numbers["fit_decode_tokens_per_s"] == pytest.approx(plan.speed.decode_tokens_per_s.mid)
    assert advice.numbers["gain"] == pytest.approx(
        own.speed.decode_tokens_per_s.mid / plan.speed.decode_tokens_per_s.mid
    )
    assert advice.numbers["max_context_tokens"] == own.max_context_tokens
    assert advice.numbers["command"] == own.command.text


def test_only_a_server_is_told_that_its_own_fit_measures_less() -> None:
    """llama-bench reserves logits of a whole ubatch as the fit does."""
    told = {
        tool: any("llama-server's own" in step for step in fitted(LLAMA_70B, "rtx-3090", tool=tool).explanation)
        for tool in ("llama-server", "llama-bench")
    }
    assert told == {"llama-server": True, "llama-bench": False}


@pytest.mark.parametrize(
    "engine", [{"split_mode": "tensor"}, {"date": "2025-06"}, {"draft": "llama-3.2-1b"}, {"mmproj": "mmproj.gguf"}],
    ids=str,
)  # fmt: skip
def test_what_fit_is_not_planned_with(engine: dict[str, Any]) -> None:
    """Split mode tensor and old builds have none; what runs beside a model is not fitted with it."""
    with pytest.raises(Unsupported):
        fitted(LLAMA_8B, "2x rtx-3090", **engine)
