"""What not fitting costs: layers on the host, or memory that a driver moves there."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from service.contract.plan import Advice
from service.core.engines.llamacpp.search.judge import LEAST_GAIN, Judge
from service.core.engines.llamacpp.speed import speed_of
from service.core.timing.spill import spill
from service.core.units import GIB
from service.planning.alternatives import RunnerUp
from service.planning.findings import Findings
from service.planning.spill import spill_of, spilled_token_s

WHERE: Final = "Windows, WSL, GGML_CUDA_ENABLE_UNIFIED_MEMORY"
"""Where a driver moves what a card lacks. Source: docs/build.md, Unified Memory (llama.cpp in llama-cpp-python 0.3.36);
NVIDIA, "System memory fallback" (2023)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Whole:
    """The same with everything on the cards: with room for it, and with what lacks moved to the host by a driver."""

    step_s: float
    spilled_step_s: float | None
    spilled_bytes: int


def spill_cliff(findings: Findings, others: Sequence[RunnerUp]) -> Iterator[Advice]:
    """How many times slower it is for what does not fit on the cards."""
    yield from _on_the_host(findings)
    yield from _beyond_the_cards(findings, others)


def _on_the_host(findings: Findings) -> Iterator[Advice]:
    decode, choice = findings.speed.decode, findings.choice
    if not findings.offloaded or decode is None or not choice.fits:
        return
    whole = _whole(findings)
    if whole is None or decode.step_s < whole.step_s * LEAST_GAIN:
        return
    host = findings.placement.host
    on_host = host.weights_bytes - host.weights.lookup_bytes + host.kv_bytes
    slowdown = decode.step_s / whole.step_s
    yield Advice(
        code="spill-cliff",
        message=f"The {on_host / GIB:.1f} GiB on the host make decode {slowdown:.1f} times as slow as these cards with "
        f"room for them ({1 / decode.step_s:.1f} instead of {1 / whole.step_s:.1f} tokens/s): a smaller quant, less "
        f"context or one more card pays off most.{_left_to_the_driver(whole)}",
        numbers={
            "slowdown": slowdown,
            "host_bytes": on_host,
            "decode_tokens_per_s": 1 / decode.step_s,
            "whole_decode_tokens_per_s": 1 / whole.step_s,
            **_spilled_numbers(whole),
        },
    )


def _whole(findings: Findings) -> _Whole | None:
    """All of it on the cards, without what runs beside it."""
    choice, judge = findings.choice, Judge(question=findings.choice.question, assumptions=findings.assumptions)
    nowhere_else = replace(
        choice.settings, n_gpu_layers="all", n_cpu_moe=None, override_tensor=(), kv_offload=True, tensor_split=None
    )
    on_cards = judge.bare.placed(nowhere_else, choice.context_tokens, with_compute=False)
    speed = speed_of(on_cards, findings.assumptions)
    if speed.decode is None:
        return None
    spilt = spill(speed.work, speed.processors, on_cards.needs)
    step_s = speed.decode.step_s
    return _Whole(
        step_s=step_s,
        spilled_step_s=None if spilt is None else step_s + spilt.step_s,
        spilled_bytes=0 if spilt is None else spilt.spilled_bytes,
    )


def _left_to_the_driver(whole: _Whole) -> str:
    if whole.spilled_step_s is None:
        return ""
    return (
        f" Left to a driver that moves the {whole.spilled_bytes / GIB:.1f} GiB there by itself ({WHERE}), it would be "
        f"{whole.spilled_step_s / whole.step_s:.1f} times as slow ({1 / whole.spilled_step_s:.1f} tokens/s)."
    )


def _spilled_numbers(whole: _Whole) -> dict[str, float | int]:
    if whole.spilled_step_s is None:
        return {}
    return {
        "spilled_bytes": whole.spilled_bytes,
        "spilled_decode_tokens_per_s": 1 / whole.spilled_step_s,
        "spilled_slowdown": whole.spilled_step_s / whole.step_s,
    }


def _beyond_the_cards(findings: Findings, others: Sequence[RunnerUp]) -> Iterator[Advice]:
    spilt, token_s = spill_of(findings), findings.speed.token_s
    if spilt is None or not token_s:
        return
    spilled_s = spilled_token_s(findings, spilt)
    rates = [
        1 / each.findings.speed.token_s for each in others if each.findings.choice.fits and each.findings.speed.token_s
    ]
    numbers: dict[str, float | int] = {
        "slowdown": spilled_s / token_s,
        "spilled_bytes": spilt.spilled_bytes,
        "spilled_decode_tokens_per_s": 1 / spilled_s,
        "whole_decode_tokens_per_s": 1 / token_s,
    }
    better = ""
    if rates and max(rates) * spilled_s > LEAST_GAIN:
        numbers["decode_tokens_per_s"] = max(rates)
        better = f" An alternative that fits decodes {max(rates):.1f} tokens/s."
    yield Advice(
        code="spill-cliff",
        message=f"{spilt.spilled_bytes / GIB:.1f} GiB lie beyond the cards. Where the driver moves them to main memory "
        f"instead of refusing ({WHERE}), decode is {spilled_s / token_s:.1f} times as slow as with room for them "
        f"({1 / spilled_s:.1f} instead of {1 / token_s:.1f} tokens/s).{better}",
        numbers=dict(numbers),
    )
