"""The chosen division of layers against every other one."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import inf
from typing import Final

import pytest

from service.core.engines.llamacpp.choices import choose
from service.core.engines.llamacpp.question import Question
from service.core.engines.llamacpp.search.judge import Judge
from service.core.engines.llamacpp.settings import LlamaCppSettings
from service.core.speed import Assumptions
from service.core.types import Rig, Workload
from tests.models import load_model
from tests.rigs import gpu, rig

# dense with even blocks, tied embeddings with two kinds of cache, a mixture of experts
MODELS: Final = ("llama-3.2-1b:Q4_K_M", "gemma-3-1b:Q4_K_M", "gpt-oss-20b:MXFP4")
RIGS: Final = 480
FULL: Final = LlamaCppSettings(n_gpu_layers="all")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A model, unlike cards that hold it together, and a workload."""

    model: str
    cards: Rig
    workload: Workload


def drawn(seed: int) -> Asked:
    """Two or three cards of drawn sizes and bandwidths, together somewhat larger than the model."""
    draw = random.Random(seed)  # noqa: S311 - the same questions in every run
    model = MODELS[seed % len(MODELS)]
    workload = Workload(
        context_tokens=draw.choice([1024, 8192, 32_768]),
        parallel=draw.choice([1, 1, 4]),
        prompt_tokens=draw.choice([64, 1024, 16_384]),
        output_tokens=draw.choice([16, 256, 2048]),
    )
    alone = Question.of(load_model(model), rig(gpu(gib=200)), workload).place(FULL, workload.context_tokens or 0)
    size_gib = alone.needs[0].total_bytes / 2**30
    count = draw.choice([2, 3]) if seed % len(MODELS) == 0 else 2
    shares = [draw.uniform(0.25, 0.9) for _ in range(count)]
    scale = draw.uniform(1.15, 1.6) / sum(shares)
    cards = [
        gpu(
            gib=size_gib * share * scale,
            slug=f"card-{index}",
            bandwidth_bytes_per_s=draw.uniform(200e9, 1800e9),
            fp32_flops=draw.uniform(10e12, 100e12),
        )
        for index, share in enumerate(shares)
    ]
    return Asked(model=model, cards=rig(*cards), workload=workload)


def divisions(slots: int, cards: int) -> Iterator[tuple[int, ...]]:
    """All ways to give every card a number of slots."""
    if cards == 1:
        yield (slots,)
        return
    for count in range(slots + 1):
        for rest in divisions(slots - count, cards - 1):
            yield (count, *rest)


def every_division(question: Question) -> Iterator[LlamaCppSettings]:
    """All integer shares, and every card alone."""
    cards = len(question.rig.gpus)
    for counts in divisions(question.hp.n_layer_all + 1, cards):
        yield replace(FULL, tensor_split=tuple(map(float, counts)))
    for index in range(cards):
        yield replace(FULL, split_mode="none", main_gpu=index)


def fastest_s(judge: Judge) -> float | None:
    """Time of the fastest division that fits, with a pipeline or as llama.cpp falls back; None where none fits."""
    question, tokens = judge.question, judge.question.workload.context_tokens or 0
    held = [each for each in every_division(question) if question.hold(each, tokens).fits]
    at_best = sorted((judge.request_s(each, tokens) or inf, index) for index, each in enumerate(held))
    fastest = inf
    for least_s, index in at_best:
        if least_s >= fastest:
            break
        choice = question.place(held[index], tokens)
        if choice.fits:
            fastest = min(fastest, judge.seconds_of(choice) or inf)
    return fastest if fastest < inf else None


@pytest.mark.parametrize("first", range(0, RIGS, 30))
def test_no_division_is_noticeably_faster_than_the_chosen_one(first: int) -> None:
    """Of all integer shares that fit, the fastest is at most half a percent faster; what was chosen fits."""
    wrong, compared = [], 0
    for seed in range(first, first + 30):
        asked = drawn(seed)
        model = load_model(asked.model)
        judge = Judge(question=Question.of(model, asked.cards, asked.workload), assumptions=Assumptions())
        least_s = fastest_s(judge)
        if least_s is None:
            continue
        compared += 1
        chosen = choose(model, asked.cards, LlamaCppSettings(), asked.workload)
        chosen_s = judge.seconds_of(chosen)
        if not chosen.fits or chosen_s is None or chosen_s > least_s * 1.005:
            wrong.append((seed, asked.model, chosen.settings.tensor_split, chosen_s, least_s))
    assert compared >= 28
    assert wrong == []
