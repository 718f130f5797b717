"""The accuracy report: errors of the committed constants, and of constants that never saw the card."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tests.speed_cases import SpeedCase

_WORST = 30
_METRICS = {
    "decode_tokens_per_s": "decode",
    "prefill_tokens_per_s": "prefill",
    "aggregate_decode_tokens_per_s": "many streams",
    "ttft_s": "first token",
    "speculation_gain": "gain by drafts",
}
_SPLITS = {"one": "one card", "layer": "layer split", "row": "row split", "tensor": "tensor split", "cpu": "processor"}

CLASSICS = ("llama-3.1-8b:Q4_K_M", "llama-3.1-8b:F16", "llama-3.3-70b:Q4_K_M", "llama-3.3-70b:F16")
"""Llama 3 has the shape of 3.1 and 3.3, whose headers the catalogue has."""

Errors = NDArray[np.float64]


def figures(errors: Errors) -> str:
    """Columns of a group: how many, the mean and median of the relative error, and how many are close."""
    sizes = np.abs(np.expm1(errors))
    return (
        f"{len(sizes)} | {100 * sizes.mean():.1f} | {100 * np.median(sizes):.1f} | "
        f"{100 * (sizes < 0.1).mean():.0f} | {100 * (sizes < 0.15).mean():.0f}"
    )


def group_rows(
    cases: Sequence[SpeedCase], errors: Errors, key: Callable[[SpeedCase], str | None]
) -> Iterator[tuple[str, list[int]]]:
    """Groups in order, with the positions of their cases; those without a key are left out."""
    members: dict[str, list[int]] = {}
    for index, case in enumerate(cases):
        group = key(case)
        if group is not None:
            members.setdefault(group, []).append(index)
    assert len(errors) == len(cases)
    yield from sorted(members.items())


def by_group(case: SpeedCase) -> str:
    """Backend, arrangement and metric."""
    return f"{case.backend}, {_SPLITS[case.split]}, {_METRICS[case.metric]}"


def committed_lines(cases: Sequence[SpeedCase], errors: Errors) -> Iterator[str]:
    """Errors with the constants of this version: in the sample that they were fitted to."""
    yield "| group | n | MAPE % | median % | within 10 % | within 15 % |"
    yield "|---|---|---|---|---|---|"
    for group, members in group_rows(cases, errors, by_group):
        yield f"| {group} | {figures(errors[members])} |"


def held_out_lines(cases: Sequence[SpeedCase], errors: Errors, covered: Sequence[bool]) -> Iterator[str]:
    """Errors of constants that were fitted without the card, and how many fall into the range."""
    yield "| group | n | MAPE % | median % | within 10 % | within 15 % | in range % |"
    yield "|---|---|---|---|---|---|---|"
    serial = {"one", "layer"}
    views: tuple[Callable[[SpeedCase], str | None], ...] = (
        lambda case: (
            f"**{case.backend}, one card or layer split, {_METRICS[case.metric]}**" if case.split in serial else None
        ),
        lambda case: (
            f"**{case.backend}, row and tensor split, {_METRICS[case.metric]}**"
            if case.split not in {*serial, "cpu"}
            else None
        ),
        by_group,
        lambda case: _cuda(case, f"{case.generation}"),
        lambda case: _cuda(case, f"{len(case.rig.gpus)} cards"),
        lambda case: _cuda(case, _depth(case)),
        lambda case: _cuda(case, f"builds of {case.work.built.year if case.work.built else 'no stated date'}"),
    )
    for view in views:
        for group, members in group_rows(cases, errors, view):
            inside = sum(covered[index] for index in members) / len(members)
            yield f"| {group} | {figures(errors[members])} | {100 * inside:.0f} |"


def _cuda(case: SpeedCase, part: str) -> str | None:
    if case.backend != "cuda" or case.split not in {"one", "layer"} or case.metric not in _METRICS:
        return None
    if _METRICS[case.metric] not in {"decode", "prefill"}:
        return None
    return f"cuda {_METRICS[case.metric]}: {part}"


def _depth(case: SpeedCase) -> str:
    tokens = case.depth_tokens
    for limit, words in ((1024, "up to 1K"), (8192, "1K to 8K"), (32768, "8K to 32K")):
        if tokens <= limit:
            return f"depth {words}"
    return "depth above 32K"


def is_classic(case: SpeedCase) -> bool:
    """Decode of Llama 3 8B and 70B, Q4_K_M and F16, on one to eight NVIDIA cards with builds of May 2024."""
    month = case.work.built is not None and (case.work.built.year, case.work.built.month) == (2024, 5)
    return month and case.backend == "cuda" and case.metric == "decode_tokens_per_s" and case.reference in CLASSICS


def bandwidth_errors(cases: Sequence[SpeedCase]) -> Errors:
    """What the rule that tools for memory use says: one card's bandwidth over all bytes that a token reads."""
    errors = []
    for case in cases:
        read_bytes = sum(case.work.read_bytes(part) for part in case.work.cards)
        rate = (case.rig.gpus[0].bandwidth_bytes_per_s or np.nan) / read_bytes
        errors.append(np.log(rate / case.value))
    return np.array(errors, dtype=np.float64)


def classics_lines(cases: Sequence[SpeedCase], committed: Errors, held_out: Errors) -> Iterator[str]:
    """The table that public tools are compared on."""
    members = [index for index, case in enumerate(cases) if is_classic(case)]
    chosen = [cases[index] for index in members]
    yield (
        "Llama 3 8B and 70B, Q4_K_M and F16, on one to eight NVIDIA cards with builds of May 2024 "
        "(XiongjieDai/GPU-Benchmarks-on-LLM-Inference), decode:"
    )
    yield ""
    yield "| by | n | MAPE % | median % | within 10 % | within 15 % |"
    yield "|---|---|---|---|---|---|"
    yield f"| this version | {figures(committed[members])} |"
    yield f"| constants fitted without the card | {figures(held_out[members])} |"
    yield f"| bytes over bandwidth | {figures(bandwidth_errors(chosen))} |"


def worst_lines(cases: Sequence[SpeedCase], errors: Errors) -> Iterator[str]:
    """The measurements that are missed most."""
    yield "| predicted / measured | measured | what | where | source |"
    yield "|---|---|---|---|---|"
    for index in np.argsort(-np.abs(errors))[:_WORST]:
        case = cases[index]
        yield (
            f"| {np.exp(errors[index]):.2f} | {case.value:.4g} | {_METRICS[case.metric]} of {case.reference} "
            f"| {len(case.rig.gpus) or 1} x {case.cards}, {by_group(case)} | {case.source} |"
        )


def report(
    cases: Sequence[SpeedCase],
    committed: Errors,
    held_out: Errors,
    inside: Sequence[bool],
    refused: Mapping[str, str],
    fitted_on: str,
) -> str:
    """The whole document."""
    lines = [
        "# Accuracy of speed predictions",
        "",
        _INTRODUCTION.format(fitted_on=fitted_on, n=len(cases)),
        "",
        "## Held out",
        "",
        "Each card is predicted by constants that were fitted without it (five folds by type of card). The form of the",
        "equations and the priors were chosen with all these measurements in view, so that cards and models in",
        "none of them may be missed by more than this table says.",
        "",
        "In range: how many lie between low and high, where the width comes from held-out errors of other folds only.",
        "A fold is a fifth of the types of cards; where fewer than five types were measured (processors, SYCL, many",
        "streams, splits by rows and tensors), a fifth of the models, so that there it says little of other cards.",
        "",
        *held_out_lines(cases, held_out, inside),
        "",
        "## With the constants of this version",
        "",
        "The same measurements with the constants that were fitted to all of them.",
        "",
        *committed_lines(cases, committed),
        "",
        "## The classics",
        "",
        *classics_lines(cases, committed, held_out),
        "",
        "## Missed most, held out",
        "",
        *worst_lines(cases, held_out),
        "",
        "## Not planned",
        "",
        *(f"* {id_}: {why}" for id_, why in sorted(refused.items())),
        "",
        "## What is missing",
        "",
        *_MISSING,
    ]
    return "\n".join(lines) + "\n"


_INTRODUCTION = (
    "Generated by `benchmarks/calibrate.py` on {fitted_on} from {n} public measurements of llama.cpp (`tests/speed`). "
    "Errors are predicted / measured - 1 of rates; MAPE is their mean size."
)
_MISSING = """\
* **Rows and tensors over cards**: what a meeting costs depends on the host's processor and slots, which measurements
  do not state; the same split took 140 us a meeting on one host and 250 us on another.
* **Prompts on ROCm and Vulkan**: two types of cards have nearly all measurements. Attention at great depth, mixtures
  under ROCm, and models above 30B under Vulkan in builds of 2025 are missed by up to a factor of two; drivers (RADV or
  AMDVLK, versions of ROCm) are not stated.
* **Prompts on SYCL**: one type of card. Products of 16-bit floats were an option of the build until June 2026: a plan
  takes what was the default. Types that are not laid out anew (IQ4_NL) and experts take longer than predicted.
* **BF16 on Vulkan**, and models that fill the memory of two cards there: nine times slower than predicted.
* **First tokens of a server**: copies of caches that cannot be rolled back are counted at the mean rate of two
  machines, one of them that of the rows above; queues, and kernels that a first request loads, are not.
* **Processors**: their cores and memory channels are in no catalogue: eight cores and two channels are assumed, state
  the bandwidth of main memory. 26 of 28 figures of decode were measured with two to four threads.
* **Memory that spills** out of a card into main memory is predicted from one machine, within a factor of two.
""".splitlines()
