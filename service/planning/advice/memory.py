"""What would make a model fit better."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from service.contract.plan import Advice
from service.core.engines.llamacpp.placement import unpipelined
from service.core.engines.llamacpp.question import Choice
from service.core.engines.llamacpp.search.judge import LEAST_GAIN
from service.core.engines.llamacpp.search.rivals import SMALLER_CACHE
from service.core.engines.llamacpp.settings import LlamaCppSettings
from service.core.units import GIB, MIB
from service.planning.alternatives import RunnerUp
from service.planning.findings import Findings

LEAST_COPIES_BYTES: Final = 512 * MIB
"""Copies of graph inputs that are worth a word: about a layer of a large model."""

F16_BYTES: Final = 2

EXPERTS_SHARE: Final = 0.5
"""Share of the experts on one of several cards from which on it is said."""


def quantised_cache(findings: Findings, others: Sequence[RunnerUp]) -> Iterator[Advice]:
    """A cache of half the size, where that reaches the context, or a longer one."""
    other = next((each.findings for each in others if each.rival.kind == "smaller_cache"), None)
    if other is None:
        return
    before, after = (
        sum(device.kv_bytes for device in each.placement.devices) + each.placement.host.kv_bytes
        for each in (findings, other)
    )
    tokens, token_s = other.choice.context_tokens, other.speed.token_s
    yield Advice(
        code="quantise-kv",
        message=f"With -ctk {SMALLER_CACHE} -ctv {SMALLER_CACHE} the cards hold everything at {tokens:,} tokens of "
        f"context, in a cache of {after / GIB:.2f} GiB; now it is {before / GIB:.2f} GiB for "
        f"{findings.choice.context_tokens:,}.",
        numbers={
            "context_tokens": tokens,
            "kv_bytes": after,
            "kv_bytes_before": before,
            "decode_tokens_per_s": 1 / token_s if token_s else 0.0,
        },
    )


def pipeline_copies(findings: Findings) -> Iterator[Advice]:
    """What a pipeline's copies of graph inputs take at a long context, and how to do without."""
    placement, cards = findings.placement, len(findings.busy)
    mask_bytes = placement.ctx.n_ctx_seq * placement.ctx.n_ubatch * F16_BYTES
    if not placement.pipeline_parallel or (placement.sched_copies - 1) * mask_bytes * cards < LEAST_COPIES_BYTES:
        return
    copies = sum([device.compute_bytes for device in placement.devices]) - sum(unpipelined(placement).device_bytes)
    if copies < LEAST_COPIES_BYTES:
        return
    yield Advice(
        code="pipeline-copies",
        message=f"A pipeline over the cards keeps {placement.sched_copies} copies of graph inputs, which take "
        f"{copies / GIB:.2f} GiB at this context. An -ot entry that matches nothing (-ot none=CPU) turns it off, at "
        "the price of slower prompts; a smaller -ub shrinks what is copied.",
        numbers={"copies_bytes": copies, "sched_copies": placement.sched_copies, "cards": cards},
    )


def experts_on_last_card(findings: Findings) -> Iterator[Advice]:
    """With --n-cpu-moe the first blocks are light: without shares the last cards get all experts that are left."""
    choice = findings.choice
    placement, settings = findings.placement, choice.settings
    if not settings.n_cpu_moe or placement.split_mode != "layer" or len(placement.device_order) < 2:
        return
    plain = _without_shares(findings)
    held = [plain.placement.devices[card] for card in plain.placement.device_order]
    experts = [device.weights.expert_bytes for device in held]
    last, total = experts[-1], sum(experts)
    if not total or last < total * EXPERTS_SHARE or last * len(experts) < total * LEAST_GAIN:
        return
    need = plain.needs[plain.placement.device_order[-1]]
    cure = _shares(settings)
    yield Advice(
        code="experts-on-last-card",
        message=f"--n-cpu-moe {settings.n_cpu_moe} leaves the experts of the last blocks on the cards: without -ts the "
        f"last card gets {last / GIB:.1f} of {total / GIB:.1f} GiB of them and needs {need.total_bytes / GIB:.1f} GiB "
        f"of {(need.usable_bytes or 0) / GIB:.1f}. " + cure,
        numbers={
            "last_card_expert_bytes": last,
            "expert_bytes": total,
            "last_card_bytes": need.total_bytes,
            "usable_bytes": need.usable_bytes or 0,
        },
    )


def _without_shares(findings: Findings) -> Choice:
    choice = findings.choice
    if choice.settings.tensor_split is None:
        return choice
    return choice.question.hold(replace(choice.settings, tensor_split=None), choice.context_tokens)


def _shares(settings: LlamaCppSettings) -> str:
    if settings.tensor_split is None:
        return "Give -ts so that the first cards take more blocks."
    return f"The shares {','.join(f'{share:g}' for share in settings.tensor_split)} spread them."
