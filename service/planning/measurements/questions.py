"""A benchmark as the question it answers: the PlanRequest whose speed it measured."""

from collections.abc import Mapping
from datetime import date
from typing import Any, Final

from service.core.engines.llamacpp.versions import version_rules
from service.core.problems import PlanProblem
from service.core.units import pad
from service.measurements.runs import Figure, Flags, Setup
from service.planning.measurements.matched_rigs import RigMatch

# numbers below are of repositories that were cloned without their history, which count from 1
FIRST_BUILD: Final = 1000
_CONTEXT_STEP_TOKENS: Final = 256
_DEFAULT_CACHE_TYPE: Final = "f16"


def question_of(setup: Setup, figure: Figure, model: str, rig: RigMatch) -> Mapping[str, Any]:
    """The request as JSON; raises ValueError with a sentence where the figure is no speed of a plan."""
    if setup.flags.speculates:
        raise ValueError("Speculative decoding was on, whose gain depends on the text.")
    question: dict[str, Any] = {
        "model": model,
        "rig": {"gpus": [dict(gpu) for gpu in rig.gpus]},
        "workload": _workload(figure),
        "engine": _llamacpp(setup, rig) if setup.engine == "llama.cpp" else _vllm(setup, rig),
    }
    if not rig.gpus and setup.cpu:
        question["rig"]["host"] = {"cpu": setup.cpu}
    return question


def _workload(figure: Figure) -> Mapping[str, int]:
    """Tokens of the test: an answer alone starts behind one token, which is the first a program can decode from.

    Source: test_gen and test_prompt, tools/llama-bench/llama-bench.cpp (llama.cpp in llama-cpp-python 0.3.36).
    """
    prompt, output, cached = figure.prompt_tokens, figure.output_tokens, figure.cached_tokens
    if prompt is None or output is None or cached is None or figure.parallel is None:
        raise ValueError("The file does not say how long prompts and answers were and how many ran at once.")
    if figure.metric == "combined_tokens_per_s":
        raise ValueError("A prompt and its answer timed together say neither how fast one is nor the other.")
    if figure.metric == "prefill_tokens_per_s" and figure.parallel > 1:
        raise ValueError("Prompts of several streams processed together are not predicted.")
    context = pad(cached + prompt + output, _CONTEXT_STEP_TOKENS) * figure.parallel
    if figure.metric == "decode_tokens_per_s" and prompt == 0:
        prompt, cached = 1, max(0, cached - 1)
    return {
        "context_tokens": context,
        "parallel": figure.parallel,
        "prompt_tokens": prompt,
        "cached_tokens": cached,
        "output_tokens": max(1, output),
    }


def _llamacpp(setup: Setup, rig: RigMatch) -> Mapping[str, Any]:
    flags = setup.flags
    engine: dict[str, Any] = {
        "name": "llama.cpp",
        "tool": "llama-bench" if setup.tool == "llama-bench" else "llama-server",
        **_build(setup),
    }
    stated = {
        "n_batch": flags.n_batch,
        "n_ubatch": flags.n_ubatch,
        "cache_type_k": _cache_type(flags.cache_type_k),
        "cache_type_v": _cache_type(flags.cache_type_v),
        "n_cpu_moe": flags.n_cpu_moe,
    }
    engine |= {field: value for field, value in stated.items() if value is not None}
    engine["flash_attn"] = _attention(flags, engine)
    if not flags.kv_offload:
        engine["kv_offload"] = False
    if flags.override_tensor:
        engine["override_tensor"] = list(flags.override_tensor)
    if rig.gpus:
        engine["n_gpu_layers"] = "all" if flags.n_gpu_layers is None or flags.n_gpu_layers < 0 else flags.n_gpu_layers
        engine |= _split(flags, len(rig.gpus))
    return engine


def _build(setup: Setup) -> Mapping[str, str]:
    """The build by its number, else by the day of the test; nothing where neither is told."""
    if setup.build_number is not None and setup.build_number >= FIRST_BUILD:
        return {"version": f"b{setup.build_number}"}
    try:
        return {"date": date.fromisoformat((setup.tested_at or "")[:10]).isoformat()}
    except ValueError:
        return {}


def _attention(flags: Flags, engine: Mapping[str, Any]) -> bool | None:
    """Flash attention: as stated; else automatic, or off in builds before that."""
    if flags.flash_attn is not None or flags.flash_attn_is_auto:
        return flags.flash_attn
    try:
        automatic = version_rules(engine.get("version"), engine.get("date")).has("flash_attn_auto")
    except PlanProblem:
        return None
    return None if automatic else False


def _cache_type(printed: str | None) -> str | None:
    return None if printed is None or printed.lower() == _DEFAULT_CACHE_TYPE else printed.lower()


def _split(flags: Flags, cards: int) -> Mapping[str, Any]:
    """How the cards shared the model; one card alone has nothing to share."""
    if cards == 1:
        return {}
    split: dict[str, Any] = {"split_mode": flags.split_mode or "layer"}
    if len(flags.tensor_split) == cards:
        split["tensor_split"] = list(flags.tensor_split)
    return split


def _vllm(setup: Setup, rig: RigMatch) -> Mapping[str, Any]:
    flags = setup.flags
    pipeline = flags.pipeline_parallel_size or 1
    engine: dict[str, Any] = {
        "name": "vllm",
        "tensor_parallel_size": flags.tensor_parallel_size or max(1, len(rig.gpus) // pipeline),
        "pipeline_parallel_size": pipeline,
    }
    if setup.version is not None:
        engine["version"] = setup.version
    return engine
