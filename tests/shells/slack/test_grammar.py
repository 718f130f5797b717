"""Lines as people write them in Slack, and the requests they state."""

from typing import Any

import pytest

from service.shells.slack.grammar import Refusal, Unread, read_text
from service.shells.slack.names import Names
from tests.planner import builtin_planner

L70 = "llama-3.3-70b"
PAIR = {"gpus": ["2x rtx-3090"]}
CONTEXT = {"workload": {"context_tokens": 32768}}
KV8 = {"cache_type_k": "q8_0", "cache_type_v": "q8_0"}


def names() -> Names:
    """The names of the built-in catalogues."""
    catalogues = builtin_planner().catalogues
    return Names(gpus=catalogues.gpus, models=catalogues.models)


def read(line: str) -> dict[str, Any]:
    """What a line states, without what it leaves open."""
    return read_text(line, names()).model_dump(mode="json", exclude_defaults=True)


def refusal(line: str) -> Refusal:
    """Why a line is refused."""
    with pytest.raises(Unread) as unread:
        read_text(line, names())
    return unread.value.refusal


def asked(model: Any = L70, rig: dict[str, Any] = PAIR, **parts: Any) -> dict[str, Any]:
    """A request in short."""
    return {"model": model, "rig": rig, **parts}


@pytest.mark.parametrize(
    "line",
    [
        "llama-3.3-70b on 2x3090 at 32k",
        "2x3090 llama-3.3-70b 32k",
        "at 32k on 2x3090: llama-3.3-70b",
        "32k ctx, 2x 3090, llama-3.3-70b",
        "Llama 3.3 70B on two RTX 3090s with 32k context",
        "llama-3.3-70b with 2 x 3090 ctx 32768",
        "llama-3.3-70b on 3090 x2 context 32k",
        "llama-3.3-70b on 3090x2 @32k",
        "llama-3.3-70b on x2 3090 -c 32768",
        "llama-3.3-70b on 2*3090 @ 32k tokens",
        "llama-3.3-70b on 2\N{MULTIPLICATION SIGN}3090 at 32,768 tokens",
        "llama-3.3-70b on dual rtx-3090 at 32768",
        "llama-3.3-70b on 2 3090s 32k context window",
        "<@U0BOT> will llama-3.3-70b fit on my 2x 3090 with 32k of context?",
        "How fast is Llama-3.3-70B-Instruct on 2x RTX 3090 at 32K?",
        "hi, can we run llama 3.3 70b on our two 3090s at 32k please",
        "*llama-3.3-70b* on `2x3090` at 32k",
        "llama-3.3-70b   on\n2x3090\tat 32k.",
        "2X3090 LLAMA-3.3-70B CTX=32K",
        "llama-3.3-70b;2x3090;ctx:32k",
        "llama-3.3-70b on 2x nvidia geforce rtx 3090, ctx-size 32k",
        "(llama-3.3-70b) on (2x3090) at 32k",
    ],
)
def test_same_question_in_many_words(line: str) -> None:
    """Order, spelling and politeness change nothing."""
    assert read(line) == asked(**CONTEXT)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("llama-3.3-70b on 2x3090", asked()),
        ("llama-3.3-70b on 2x3090 max context", asked()),
        ("llama-3.3-70b on 2x3090 at max", asked()),
        ("llama-3.3-70b on 2x3090 ctx max", asked()),
        ("llama-3.3-70b on 2x3090 full context", asked()),
        ("llama-3.3-70b:Q4_K_M on 2x3090", asked(f"{L70}:Q4_K_M")),
        ("llama-3.3-70b q4_k_m on 2x3090", asked(f"{L70}:Q4_K_M")),
        ("llama-3.3-70b:q8 on 2x3090", asked(f"{L70}:Q8_0")),
        ("q8 llama-3.3-70b on 2x3090", asked(f"{L70}:Q8_0")),
        ("llama-3.3-70b at iq4_xs on 2x3090", asked(f"{L70}:IQ4_XS")),
        ("llama-3.3-70b fp16 on 2x3090", asked(f"{L70}:F16")),
        ("llama-3.3-70b-Q4_K_M.gguf on 2x3090", asked(f"{L70}:Q4_K_M")),
        ("llama-3.3-70b-Q8_0.gguf on 2x3090", asked(f"{L70}:Q8_0")),
        ("llama-3.3-70b on 5090 and 3090", asked(rig={"gpus": ["rtx-5090", "rtx-3090"]})),
        ("llama-3.3-70b on 5090+3090", asked(rig={"gpus": ["rtx-5090", "rtx-3090"]})),
        ("llama-3.3-70b on 5090 3090", asked(rig={"gpus": ["rtx-5090", "rtx-3090"]})),
        ("llama-3.3-70b on 2x3090, a 4090 & 5090", asked(rig={"gpus": ["2x rtx-3090", "rtx-4090", "rtx-5090"]})),
        ("llama-3.3-70b 3090 plus 3 x 4090", asked(rig={"gpus": ["rtx-3090", "3x rtx-4090"]})),
        ("llama-3.3-70b on 4090 + 2x 3090", asked(rig={"gpus": ["rtx-4090", "2x rtx-3090"]})),
        ("llama-3.3-70b on mi300x x8", asked(rig={"gpus": ["8x mi300x"]})),
        ("llama-3.3-70b on l40s", asked(rig={"gpus": ["l40s"]})),
        ("llama-3.3-70b on two l40s", asked(rig={"gpus": ["2x l40s"]})),
        ("llama-3.3-70b on 4070 ti super", asked(rig={"gpus": ["rtx-4070-ti-super"]})),
        ("llama-3.3-70b on 3090 ti", asked(rig={"gpus": ["rtx-3090-ti"]})),
        ("llama-3.3-70b on 3060 12gb", asked(rig={"gpus": ["rtx-3060-12gb"]})),
        ("llama-3.3-70b on 2x3090 for 4 users", asked(workload={"parallel": 4})),
        ("llama-3.3-70b on 2x3090 with two concurrent users", asked(workload={"parallel": 2})),
        ("llama-3.3-70b on 2x3090 parallel 8", asked(workload={"parallel": 8})),
        ("llama-3.3-70b on 2x3090 8 streams 64k", asked(workload={"context_tokens": 65536, "parallel": 8})),
        ("llama-3.3-70b on 2x3090 4k prompt", asked(workload={"prompt_tokens": 4096})),
        ("llama-3.3-70b on 2x3090 prompt 2000, output 500",
         asked(workload={"prompt_tokens": 2000, "output_tokens": 500})),
        ("llama-3.3-70b on 2x3090 kv q8", asked(engine=KV8)),
        ("llama-3.3-70b on 2x3090 q8_0 kv cache", asked(engine=KV8)),
        ("llama-3.3-70b q8 on 2x3090 cache q8", asked(f"{L70}:Q8_0", engine=KV8)),
        ("llama-3.3-70b on 2x3090 1000w psu", asked(rig={**PAIR, "psu": {"rated_w": 1000.0}})),
        ("llama-3.3-70b on 2x3090, psu 1.2kw", asked(rig={**PAIR, "psu": {"rated_w": 1200.0}})),
        ("llama-3.3-70b on 2x3090, power supply of 1600 watts", asked(rig={**PAIR, "psu": {"rated_w": 1600.0}})),
        ("llama-3.3-70b on 2x3090, 850 psu", asked(rig={**PAIR, "psu": {"rated_w": 850.0}})),
        ("llama-3.3-70b on 2x3090 and 64gb of ram", asked(rig={**PAIR, "host": {"ram_bytes": 64 * 2**30}})),
        ("llama-3.3-70b on 2x3090 ram 128 GB", asked(rig={**PAIR, "host": {"ram_bytes": 128 * 2**30}})),
        ("llama-3.3-70b on 2x3090 with nvlink", asked(rig={**PAIR, "nvlink": True})),
        ("llama-3.3-70b on 2x3090 without nvlink", asked(rig={**PAIR, "nvlink": False})),
        ("llama-3.3-70b vllm 2x3090", asked(engine={"name": "vllm"})),
        ("vllm 0.33.0: llama-3.3-70b on 2x3090 tp 2",
         asked(engine={"name": "vllm", "version": "0.33.0", "tensor_parallel_size": 2})),
        ("llama-3.3-70b on vllm on 2x3090 kv fp8", asked(engine={"name": "vllm", "kv_cache_dtype": "fp8"})),
        ("llama-3.3-70b using llama.cpp b8829 on 2x3090", asked(engine={"version": "b8829"})),
        ("llama-3.3-70b on 2x3090 tensor split", asked(engine={"split_mode": "tensor"})),
        ("llama-3.3-70b on 2x3090 -sm layer", asked(engine={"split_mode": "layer"})),
        ("llama-3.3-70b on 2x3090, 300w each",
         asked(rig={"gpus": [{"gpu": "rtx-3090", "count": 2, "power_limit_w": 300.0}]})),
        ("llama-3.3-70b on 4090 limited to 350 W with 1000w psu",
         asked(rig={"gpus": [{"gpu": "rtx-4090", "power_limit_w": 350.0}], "psu": {"rated_w": 1000.0}})),
        ("llama-3.3-70b on 2x3090 with flash attention", asked(engine={"flash_attn": True})),
        ("llama-3.3-70b on 2x3090 without flash-attention", asked(engine={"flash_attn": False})),
        ("what's the max context of llama-3.3-70b across 2x3090?", asked()),
        ("llama-3.3-70b on cpu only, 96gb ddr5", asked(rig={"host": {"ram_bytes": 96 * 2**30}})),
        ("qwen3 4b 4090", asked("qwen3-4b", {"gpus": ["rtx-4090"]})),
        ("gpt-oss-120b with 4 x 3090 at 128k", asked("gpt-oss-120b", {"gpus": ["4x rtx-3090"]},
                                                      workload={"context_tokens": 131072})),
        ("hf.co/owner/repo-GGUF:Q4_K_M on 2x3090", asked({"url": "hf.co/owner/repo-GGUF:Q4_K_M"})),
        ("<https://models.example/x-32k.gguf|x> on 2x3090", asked({"url": "https://models.example/x-32k.gguf"})),
        ("llama-3.3-70b at 3090", asked(rig={"gpus": ["rtx-3090"]})),
    ],
)  # fmt: skip
def test_line_states_request(line: str, expected: dict[str, Any]) -> None:
    """Every phrase lands in its field, and nothing else changes."""
    expected = {name: part for name, part in expected.items() if part}
    assert read(line) == expected


@pytest.mark.parametrize(
    ("line", "said", "first"),
    [
        ("lama-3.3-70b on 2x3090 at 32k", "lama-3.3-70b", "llama-3.3-70b on 2x3090 at 32k"),
        ("llama-3.3-70b on 2x3091 at 32k", "3091", "llama-3.3-70b on 2x rtx-3090 at 32k"),
        ("llama-3.3-70b on a100", "ambiguous", "llama-3.3-70b on a100-pcie-40gb"),
        ("llama-3.3-70b on 2 4080s", "4080s", "llama-3.3-70b on 2x rtx-4080"),
        ("llama-3.3-70b q9 on 3090", "no quant 'q9'", "llama-3.3-70b:Q2_K on 3090"),
        ("llama-3.3-70b:nonsense on 3090", "no quant", "llama-3.3-70b:F16 on 3090"),
        ("llama-3.3-70b on 2x3090 quickly", "'quickly'", "llama-3.3-70b on 2x3090"),
        ("llama-3.3-70b on 2x3090 1000w", "power supply, or", "llama-3.3-70b on 2x3090 1000w psu"),
        ("llama-3.3-70b qwen3-32b on 3090", "One model", "qwen3-32b on 3090"),
    ],
)
def test_unclear_words_are_asked_about(line: str, said: str, first: str) -> None:
    """What is unclear is never guessed: the refusal says what, and offers whole lines."""
    refused = refusal(line)
    assert said in refused.detail
    assert refused.corrections[0] == first
    assert line not in refused.corrections


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "Which model"),
        ("2x3090", "Which model"),
        ("llama-3.3-70b", "On which cards"),
        ("llama-3.3-70b at 32k", "On which cards"),
        ("llama-3.3-70b on 2x3090 at 32k at 16k", "Two values for context tokens"),
        ("llama-3.3-70b on 2x3090 cpu only", "say one"),
        ("llama-3.3-70b on 2x3090 vs 5090", "One rig at a time"),
        ("llama-3.3-70b on 2x3090 for 9999 users", "/workload/parallel"),
        ("llama-3.3-70b on 2x3090 kv fp8", "cache_type_k"),
        ("llama-3.3-70b on 2x3090 vllm tensor split", "/engine/split_mode"),
        ("x" * 1001, "longer than 1000"),
    ],
)
def test_what_is_missing_or_twofold_is_said(line: str, said: str) -> None:
    """A line without a model or cards, or with two meanings, is refused in words."""
    assert said in refusal(line).detail


def test_corrections_can_be_read() -> None:
    """Pressing the first suggestion of a misspelt name leads to a question."""
    for line in ("lama-3.3-70b on 2x3090", "llama-3.3-70b on 2x3091", "llama-3.3-70b q9 on 3090 at 8k"):
        assert read(refusal(line).corrections[0])["model"].startswith("llama-3.3-70b")


def test_every_model_and_card_of_the_catalogue_can_be_named() -> None:
    """Names as the lists show them are read as they are."""
    for summary in builtin_planner().catalogues.models.search():
        row = summary.rows[0]
        assert read(f"{row.reference} on 3090")["model"] == row.reference
    for slug in builtin_planner().catalogues.gpus.names.records:
        assert read(f"llama-3.3-70b on 3x {slug} at 8k")["rig"]["gpus"] == [f"3x {slug}"]
