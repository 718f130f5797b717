"""Recommendations against every rig planned by brute force, and what they say about themselves."""

from collections.abc import Iterator
from itertools import combinations
from typing import Any

import pytest

from service.contract.plan import Plan
from service.contract.recommend import EXAMPLE_RECOMMENDATION, Recommendation, Recommendations, RecommendRequest
from service.contract.request import PlanRequest
from service.contract.validation import validate_as
from service.core.problems import Contradiction, InvalidRequest, PlanProblem, UnknownGpu, UnknownModel
from service.core.types import Host
from service.planning.recommend import recommend
from service.planning.recommend.builds import chains
from service.planning.recommend.floor import floor_of, least_decode_s
from service.planning.recommend.kinds import kinds_of
from service.planning.recommend.needs import needs_of
from service.planning.recommend.search import LEAST_GAIN, MAX_PLANS
from tests.planner import ask, builtin_planner

LLAMA_70B, QWEN_32B, MOE = "llama-3.3-70b:Q4_K_M", "qwen3-32b:Q4_K_M", "qwen3-30b-a3b:Q4_K_M"
KINDS = ["rtx-3060-12gb", "rtx-3090", "rtx-4070", "rtx-5090"]
PRICES = {"rtx-3060-12gb": 250.0, "rtx-3090": 750.0, "rtx-4070": 550.0, "rtx-5090": 2600.0}
CONTEXT = {"context_tokens": 8192}
Counts = dict[str, int]


def recommended(**fields: Any) -> Recommendations:
    """An answer to a request that leaves the rest as it is."""
    return recommend(validate_as(RecommendRequest, {"workload": CONTEXT, **fields}), builtin_planner())


def rigs(most: int) -> Iterator[Counts]:
    """Every rig of one or two of the kinds with up to so many cards."""
    for kind in KINDS:
        yield from ({kind: count} for count in range(1, most + 1))
    for one, other in combinations(KINDS, 2):
        yield from ({one: here, other: there} for here in range(1, most) for there in range(1, most - here + 1))


def planned(model: str, rig: Counts) -> Plan:
    """The plan of a rig, larger cards first as rigs are recommended."""
    usable = {kind: builtin_planner().catalogues.gpus.gpus(kind)[0].usable_bytes for kind in rig}
    cards = sorted(rig, key=lambda kind: (-usable[kind], kind))
    return ask(model, *(f"{rig[kind]}x {kind}" for kind in cards), **CONTEXT)


def counts_of(rig: Recommendation) -> Counts:
    """Cards of a recommended rig by kind."""
    parts = [name.partition("x ") if "x " in name else ("1", "", name) for name in rig.gpus]
    return {kind: int(count) for count, _, kind in parts}


def doing(model: str, least: float, most: int) -> list[tuple[Counts, float]]:
    """Every rig that fits and decodes fast enough, with its speed."""
    found = []
    for rig in rigs(most):
        plan = planned(model, rig)
        if plan.fits and plan.speed is not None and plan.speed.decode_tokens_per_s.mid >= least:
            found.append((rig, plan.speed.decode_tokens_per_s.mid))
    return found


def contains(rig: Counts, other: Counts) -> bool:
    return all(rig.get(kind, 0) >= count for kind, count in other.items())


def price(rig: Counts) -> float:
    return sum(PRICES[kind] * count for kind, count in rig.items())


@pytest.mark.parametrize(("model", "least", "most"), [(LLAMA_70B, 12, 4), (QWEN_32B, 25, 3), (MOE, 60, 3)])
def test_the_cheapest_rigs_are_those_of_brute_force(model: str, least: float, most: int) -> None:
    """Every rig that does it and only adds cards to none is named, cheapest first."""
    does = [rig for rig, _ in doing(model, least, most)]
    minimal = [rig for rig in does if not any(contains(rig, other) and rig != other for other in does)]
    answer = recommended(
        model=model, min_decode_tokens_per_s=least, max_cards=most, gpus=KINDS, prices=PRICES, limit=100
    )  # fmt: skip
    named = [counts_of(rig) for rig in answer.recommendations]
    assert answer.sorted_by == "price"
    assert [rig.price for rig in answer.recommendations] == sorted(map(price, minimal))
    assert sorted(map(str, (sorted(rig.items()) for rig in named))) == sorted(
        map(str, (sorted(rig.items()) for rig in minimal))
    )


@pytest.mark.parametrize("key", ["decode_tokens_per_s", "decode_tokens_per_s_per_w", "decode_tokens_per_s_per_price"])
def test_the_fastest_rig_is_that_of_brute_force(key: str) -> None:
    """By speed, and by speed per watt or price, no rig is better than the first by more than runs differ."""
    watts = {kind: builtin_planner().catalogues.gpus.names.records[kind].tdp_w or 0 for kind in KINDS}
    best = 0.0
    for rig, speed in doing(QWEN_32B, 1, 3):
        by = {
            "decode_tokens_per_s": 1.0,
            "decode_tokens_per_s_per_w": sum(watts[kind] * count for kind, count in rig.items()),
            "decode_tokens_per_s_per_price": price(rig),
        }
        best = max(best, speed / by[key])
    answer = recommended(model=QWEN_32B, max_cards=3, gpus=KINDS, prices=PRICES, sort_by=key, limit=3)
    values = [getattr(rig, key) for rig in answer.recommendations]
    assert values == sorted(values, reverse=True)
    assert values[0] * LEAST_GAIN >= best


def test_every_rig_is_accounted_for() -> None:
    """What was not planned was too small, over a limit, too slow, not needed or not reached."""
    for fields in (
        {"model": LLAMA_70B, "min_decode_tokens_per_s": 15},
        {"model": LLAMA_70B, "max_power_w": 900, "sort_by": "cards"},
        {"model": QWEN_32B, "sort_by": "decode_tokens_per_s", "max_kinds": 1},
    ):
        counts = recommended(**fields).considered
        parts = (counts.too_small, counts.over_limit, counts.too_slow, counts.not_needed, counts.not_reached)
        assert sum(parts) + counts.planned == counts.rigs
        assert counts.planned <= MAX_PLANS


def test_the_whole_catalogue_is_searched_with_few_plans() -> None:
    """Of all cards up to eight times, few rigs have to be planned to name the ten with the least power."""
    answer = recommended(model=LLAMA_70B, min_decode_tokens_per_s=15, max_kinds=1)
    assert answer.considered.kinds > 200
    assert answer.considered.rigs > 1000
    assert answer.considered.planned < 100
    assert answer.considered.not_reached == 0
    powers = [rig.power_w for rig in answer.recommendations]
    assert len(powers) == 10
    assert powers == sorted(powers, key=lambda watts: watts or 0)


def test_the_same_question_has_the_same_answer() -> None:
    """Nothing depends on order, time or chance; kinds in another order are the same question."""
    asked = {"model": LLAMA_70B, "min_decode_tokens_per_s": 12, "prices": PRICES, "max_cards": 4}
    first, again = recommended(gpus=KINDS, **asked), recommended(gpus=KINDS[::-1], **asked)
    assert {rig.rig for rig in first.recommendations} == {rig.rig for rig in again.recommendations}
    assert recommended(gpus=KINDS, **asked) == first


def test_a_recommended_rig_can_be_planned() -> None:
    """Its question gives the plan it names, with its figures."""
    for rig in recommended(model=LLAMA_70B, gpus=KINDS, prices=PRICES, min_decode_tokens_per_s=15).recommendations:
        (model,) = rig.models
        plan = builtin_planner().plan(model.request)
        assert (plan.id, plan.verdict, plan.command.text) == (model.plan_id, "fits", model.command)
        assert plan.speed is not None
        assert rig.decode_tokens_per_s == plan.speed.decode_tokens_per_s.mid
        assert rig.price == price(counts_of(rig))


def test_limits_hold() -> None:
    """Watts, slots, price, numbers of cards and kinds are never exceeded."""
    limits = {"max_power_w": 900, "max_slots": 6, "max_price": 3000, "min_cards": 2, "max_cards": 3}
    answer = recommended(model=QWEN_32B, gpus=KINDS, prices=PRICES, limit=100, **limits)
    assert answer.recommendations
    for rig in answer.recommendations:
        assert (rig.power_w or 0) <= 900
        assert (rig.slots or 0) <= 6
        assert (rig.price or 0) <= 3000
        assert 2 <= rig.cards <= 3
    one_kind = recommended(model=QWEN_32B, gpus=KINDS, max_kinds=1, limit=100).recommendations
    assert all(len(rig.gpus) == 1 for rig in one_kind)


def test_speeds_asked_for_are_reached() -> None:
    """Decode, prefill and the first token are each as asked."""
    asked = {"min_decode_tokens_per_s": 40, "min_prefill_tokens_per_s": 2000, "max_ttft_s": 0.6}
    answer = recommended(model=QWEN_32B, gpus=KINDS, limit=100, **asked)
    assert answer.recommendations
    for rig in answer.recommendations:
        assert (rig.decode_tokens_per_s or 0) >= 40
        assert (rig.prefill_tokens_per_s or 0) >= 2000
        assert (rig.ttft_s or 1) <= 0.6


def test_several_models_each_have_the_rig() -> None:
    """The largest decides what fits, the slowest the speed."""
    answer = recommended(models=[LLAMA_70B, MOE], gpus=KINDS, prices=PRICES, min_decode_tokens_per_s=15)
    best = answer.recommendations[0]
    assert [model.model for model in best.models] == [LLAMA_70B, MOE]
    speeds = [model.decode_tokens_per_s.mid for model in best.models if model.decode_tokens_per_s]
    assert best.decode_tokens_per_s == min(speeds)
    assert any("to itself" in sentence for sentence in answer.explanation)


def test_streams_are_counted_together_and_each() -> None:
    """With several streams the speed asked for is each one's, and the ratios are those of all together."""
    workload = {"context_tokens": 32768, "parallel": 4}
    answer = recommended(model=QWEN_32B, gpus=KINDS, workload=workload, min_decode_tokens_per_s=20)
    best = answer.recommendations[0]
    assert best.aggregate_decode_tokens_per_s == pytest.approx(4 * (best.decode_tokens_per_s or 0))
    assert best.decode_tokens_per_s_per_w == pytest.approx(
        (best.aggregate_decode_tokens_per_s or 0) / (best.power_w or 1)
    )


def test_an_open_context_is_what_the_workload_takes() -> None:
    """Without a context, prompts and answers of all streams say how much, and the answer says so."""
    workload = {"parallel": 2, "prompt_tokens": 3000, "output_tokens": 500}
    answer = recommended(model=QWEN_32B, gpus=KINDS, workload=workload)
    assert answer.context_tokens == 7168
    assert "7,168 tokens are what 2 streams take" in answer.explanation[0]


def test_a_part_on_the_host_is_allowed_where_that_is_said() -> None:
    """One small card does with host offload what it cannot alone."""
    asked = {"model": MOE, "gpus": ["rtx-3060-12gb"], "max_cards": 1}
    assert not recommended(**asked).recommendations
    (rig,) = recommended(**asked, allow_host_offload=True).recommendations
    assert rig.models[0].verdict == "fits_with_host_offload"


def test_more_cards_speed_up_what_lay_on_the_host() -> None:
    """One card with a part on the host is too slow; as many as hold all of it are not, and are found."""
    card = "rtx-3060-12gb"
    slow, fast = (planned(MOE, {card: count}).speed for count in (1, 2))
    assert slow is not None
    assert fast is not None
    between = (slow.decode_tokens_per_s.mid + fast.decode_tokens_per_s.mid) / 2
    asked = {"model": MOE, "gpus": [card], "allow_host_offload": True, "min_decode_tokens_per_s": between}
    (rig,) = recommended(**asked).recommendations
    assert (rig.rig, rig.models[0].verdict) == (f"2x {card}", "fits")


def test_mixed_rigs_are_of_cards_that_one_backend_drives() -> None:
    """No rig mixes vendors, modules of servers or chips with cards."""
    answer = recommended(model=LLAMA_70B, gpus=["rtx-3090", "rx-7900-xtx", "arc-b580", "h100-sxm5-80gb"], limit=100)
    mixed = [rig for rig in answer.recommendations if len(rig.gpus) > 1]
    assert answer.recommendations
    assert not mixed


def test_where_nothing_does_it_the_nearest_are_named() -> None:
    """Too slow, far too slow, or too small: what comes nearest and what it lacks."""
    slow = recommended(model=LLAMA_70B, gpus=["rtx-3090"], min_decode_tokens_per_s=20)
    assert (slow.recommendations, slow.considered.planned) == ([], 1)
    assert slow.near_misses[0].rig == "2x rtx-3090"
    assert "of 20 tok/s" in slow.near_misses[0].missing
    hopeless = recommended(model=LLAMA_70B, gpus=["rtx-3090"], min_decode_tokens_per_s=40)
    assert hopeless.considered.planned == 0
    assert "decodes at most" in hopeless.near_misses[0].missing
    assert slow.explanation[-1] == "No rig does what was asked."
    small = recommended(model="deepseek-r1-671b:Q4_K_M", gpus=["rtx-3090"])
    assert small.considered.planned == 0
    assert small.near_misses[0].rig == "8x rtx-3090"
    assert "GiB" in small.near_misses[0].missing


def test_kinds_that_cannot_be_judged_are_counted() -> None:
    """A card without a price where prices decide, or without slots where these are limited, is left out and said."""
    answer = recommended(model=QWEN_32B, prices={"rtx-3090": 700}, sort_by="price", max_slots=8)
    assert answer.considered.kinds == 1
    assert answer.considered.kinds_left_out["no price given"] > 100
    assert answer.considered.kinds_left_out["takes no slot, or how many is not known"] > 10


def test_candidates_are_filtered() -> None:
    """By vendor, segment and backend."""
    amd = recommended(model=QWEN_32B, vendors=["AMD"], segments=["consumer"], limit=5)
    assert all("rx-" in rig.rig for rig in amd.recommendations)
    assert amd.recommendations
    assert recommended(model=QWEN_32B, backends=["metal"]).recommendations[0].rig.startswith("apple-")


def test_the_example_of_the_document_is_answered() -> None:
    """The example gives two of the cheapest card."""
    answer = recommend(validate_as(RecommendRequest, EXAMPLE_RECOMMENDATION), builtin_planner())
    assert answer.recommendations[0].gpus == ["2x rtx-3090"]
    assert "tok/s for each stream where 15 are asked" in answer.recommendations[0].why


@pytest.mark.parametrize(
    ("fields", "kind", "words"),
    [
        ({}, InvalidRequest, "name one model"),
        ({"model": LLAMA_70B, "models": [MOE]}, InvalidRequest, "not both"),
        ({"model": "llama-9"}, UnknownModel, "llama-9"),
        ({"model": MOE, "gpus": ["rtx-9999"]}, UnknownGpu, "rtx-9999"),
        ({"model": MOE, "prices": {"rtx-9999": 5}}, UnknownGpu, "rtx-9999"),
        ({"model": MOE, "prices": {"rtx-3090": 5, "RTX 3090": 6}}, InvalidRequest, "two prices"),
        ({"model": MOE, "sort_by": "price"}, Contradiction, "give prices"),
        ({"model": MOE, "max_price": 5}, Contradiction, "give prices"),
        ({"model": MOE, "min_cards": 3, "max_cards": 2}, InvalidRequest, "more than max_cards"),
        ({"model": MOE, "max_cards": 9}, InvalidRequest, "/max_cards"),
        ({"model": MOE, "max_watts": 9}, InvalidRequest, "not a field here"),
        ({"model": MOE, "workload": {"parallel": 0}}, InvalidRequest, "/workload/parallel"),
    ],
)
def test_what_cannot_be_asked_is_refused(fields: dict[str, Any], kind: type[PlanProblem], words: str) -> None:
    """A missing or unknown name, a price nobody gave, bounds that exclude each other: one problem that names it."""
    with pytest.raises(kind, match=words):
        recommended(**fields)


def test_no_rig_decodes_faster_than_its_bound() -> None:
    """What a rig is left out for as too slow never is what its plan would have reached."""
    question = needs_of(validate_as(RecommendRequest, {"model": LLAMA_70B, "workload": CONTEXT}))
    floor = floor_of(question.questions, builtin_planner())
    request = validate_as(RecommendRequest, {"model": LLAMA_70B, "gpus": KINDS})
    kinds, _ = kinds_of(request, builtin_planner().catalogues.gpus, Host())
    for chain in chains(kinds, kinds, 1, 4):
        for number in chain.numbers:
            build = chain.build(number)
            plan = ask(LLAMA_70B, *build.names, **CONTEXT)
            if plan.fits and plan.speed is not None:
                bound = 1 / least_decode_s(build, floor, in_turn=True)
                assert plan.speed.decode_tokens_per_s.mid <= bound
                assert build.usable_bytes >= floor.held_bytes


def test_a_question_without_bounds_ends() -> None:
    """Where nothing bounds what has to be planned, the rest is counted as not reached and said."""
    answer = recommended(models=[MOE] * 16, max_ttft_s=1e-9, segments=["consumer"])
    counts = answer.considered
    assert not answer.recommendations
    assert counts.planned <= MAX_PLANS
    assert counts.not_reached > 0
    assert any("were left when" in sentence for sentence in answer.explanation)
    assert "to the first token" in answer.near_misses[0].missing


def test_a_plan_alone_is_the_same_without_runners_up() -> None:
    """What rigs are compared by is what their whole plans say."""
    question = validate_as(PlanRequest, {"model": QWEN_32B, "rig": {"gpus": ["2x rtx-3090"]}, "workload": CONTEXT})
    whole, alone = (builtin_planner().plan(question, alone=alone) for alone in (False, True))
    assert whole.alternatives
    assert not alone.alternatives
    without = {"alternatives", "advice", "explanation"}
    assert alone.model_dump(exclude=without) == whole.model_dump(exclude=without)
