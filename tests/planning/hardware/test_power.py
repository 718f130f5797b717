"""Power of a plan."""

from typing import Any

import pytest

from service.contract.hardware import Power
from service.contract.plan import Plan
from tests.planner import ask

LLAMA_8B, LLAMA_70B = "llama-3.1-8b:Q4_K_M", "llama-3.3-70b:Q4_K_M"


def power(model: str, *gpus: object, **parts: Any) -> Power:
    plan = ask(model, *gpus, context_tokens=4096, **parts)
    assert plan.power is not None
    return plan.power


@pytest.mark.parametrize(
    ("gpus", "peak_w"),
    [(["rtx-3090"], 350), (["rtx-4090"], 450), (["rtx-5090"], 575), (["2x rtx-3090"], 700),
     ([{"gpu": "rtx-3090", "count": 4, "power_limit_w": 280}], 1120)],
)  # fmt: skip
def test_cards_peak_at_their_board_power_or_their_limit(gpus: list[object], peak_w: float) -> None:
    """350, 450 and 575 W; two RTX 3090 are 700 W before the processor; a limit holds."""
    assert power(LLAMA_8B, *gpus).gpus_peak_w == peak_w


def test_a_layer_split_decodes_with_one_card_at_a_time() -> None:
    """Four cards in a layer split draw far less than four in tensor split, or than many streams."""
    layer, tensor, many = (
        power(LLAMA_70B, "4x rtx-3090", engine={"split_mode": mode}, workload={"parallel": streams})
        for mode, streams in (("layer", 1), ("tensor", 1), ("layer", 8))
    )
    assert layer.gpus_decode_w < 0.55 * layer.gpus_peak_w
    assert tensor.gpus_decode_w == pytest.approx(0.95 * tensor.gpus_peak_w)
    assert many.gpus_decode_w == pytest.approx(0.95 * many.gpus_peak_w)
    assert layer.gpus_peak_w == tensor.gpus_peak_w


def test_experts_on_the_host_load_the_processor() -> None:
    """With weights on the host the processor counts in full, stated or by its family."""
    alone = power("gpt-oss-20b", "rtx-3090", host={"cpu": "Ryzen 9 7950X"})
    shared = power("gpt-oss-20b", "rtx-3090", host={"cpu": "Ryzen 9 7950X"}, engine={"n_cpu_moe": 99})
    stated = power("gpt-oss-20b", "rtx-3090", host={"cpu_w": 280}, engine={"n_cpu_moe": 99})
    assert shared.system_peak_w - alone.system_peak_w == 230 - 90
    assert stated.system_peak_w - shared.system_peak_w == 280 - 230


def test_four_3090_at_300_watts_draw_what_puget_measured() -> None:
    """About 1580 W behind the supply with a workstation processor."""
    cards = {"gpu": "rtx-3090", "count": 4, "power_limit_w": 300}
    measured = power(LLAMA_70B, cards, host={"cpu": "Threadripper PRO 3975WX"}, rig={"psu": {"rated_w": 1600}})
    assert measured.system_peak_w == pytest.approx(1580, rel=0.01)
    assert measured.psu_load_fraction == pytest.approx(0.99, abs=0.01)
    assert measured.recommended_psu_w == 2000


@pytest.mark.parametrize(
    ("gpu", "wall_w"), [("apple-m4-max-40", 145), ("apple-m3-ultra-80", 270), ("ryzen-ai-max-395", 133)]
)
def test_a_machine_around_one_chip_draws_what_its_maker_says(gpu: str, wall_w: float) -> None:
    """Such a machine comes with its supply; no desktop processor is added to it."""
    own = power(LLAMA_8B, gpu)
    assert own.system_peak_w == own.wall_peak_w == own.recommended_psu_w == wall_w


def test_no_card_no_draw_of_cards() -> None:
    """The host alone draws its processor, board and memory."""
    host = power(LLAMA_8B, host={"cpu_w": 142, "dimms": 4})
    assert host.gpus_peak_w == 0
    assert host.system_peak_w == 142 + 50 + 4 * 4


def test_a_card_of_unknown_power_has_none() -> None:
    """Nothing is invented for a card whose power nobody stated; a limit is enough to know."""
    unknown = {"name": "lab card", "vram_bytes": 2**35, "bandwidth_bytes_per_s": 1e12}
    plan = ask(LLAMA_8B, {"gpu": unknown}, context_tokens=4096)
    assert plan.power is None
    assert any("draws is not known" in step for step in plan.explanation)
    assert power(LLAMA_8B, {"gpu": unknown, "power_limit_w": 300}).gpus_peak_w == 300


def test_what_was_assumed_is_said_and_what_was_stated_is_not() -> None:
    """Every assumption names the field that takes its place."""
    assumed = power(LLAMA_8B, "rtx-3090").assumptions
    assert any("rig.host.cpu_w" in line for line in assumed)
    assert any("rig.psu.efficiency" in line for line in assumed)
    stated = power(
        LLAMA_8B, "rtx-3090", host={"cpu_w": 100}, rig={"psu": {"rated_w": 850, "efficiency": "platinum"}}
    ).assumptions
    assert not any("rig.host.cpu_w" in line or "rig.psu" in line for line in stated)


def differing(one: Plan, other: Plan) -> bool:
    """Whether plans differ in anything but their identity."""
    return one.model_dump(exclude={"id"}) != other.model_dump(exclude={"id"})


@pytest.mark.parametrize(
    "rig",
    [
        {"nvlink": False}, {"p2p": True}, {"psu": {"rated_w": 1600}}, {"psu": {"atx_version": "3.1"}},
        {"psu": {"count": 2}}, {"psu": {"efficiency": "titanium"}}, {"psu": {"connectors": {}}},
        {"psu": {"feeds": [[0], [1]]}}, {"psu": {"worst_case": True}}, {"circuit": {"volts": 120, "amps": 5}},
        {"circuit": {"volts": 120, "amps": 10, "shared": True}}, {"circuit": {"tariff_per_kwh": 0.3}},
        {"slots": 5}, {"platform": "am5"}, {"host": {"cpu_w": 50}}, {"host": {"dimms": 8}}, {"host": {"nics": 2}},
        {"host": {"cpu": "EPYC 9354"}},
        {"gpus": [{"gpu": "rtx-3090", "power_limit_w": 250}, "rtx-3090"]},
        {"gpus": [{"gpu": "rtx-3090", "behind": "chipset"}, "rtx-3090"]},
    ],
    ids=str,
)  # fmt: skip
def test_what_is_stated_about_a_rig_changes_its_plan(rig: dict[str, Any]) -> None:
    """No field about power, cooling or links is silently ignored."""
    plain = ask(LLAMA_8B, "2x rtx-3090", context_tokens=4096, engine={"split_mode": "layer"})
    gpus = rig.pop("gpus", ["2x rtx-3090"]) if "gpus" in rig else ["2x rtx-3090"]
    host = rig.get("host", {})
    others = {name: part for name, part in rig.items() if name not in ("gpus", "host")}
    stated = ask(LLAMA_8B, *gpus, context_tokens=4096, engine={"split_mode": "layer"}, host=host, rig=others)
    assert differing(plain, stated)


def test_several_supplies_are_divided_and_that_is_said() -> None:
    """How cards were divided, and what several supplies need, is part of the answer; what they bear is of each."""
    cards = {"gpu": "rtx-4090", "count": 4}
    one, two = (power(LLAMA_70B, cards, rig={"psu": {"rated_w": 1600, "count": count}}) for count in (1, 2))
    assert one.psu_load_fraction == pytest.approx(1948 / 1600)
    assert two.psu_load_fraction == pytest.approx((148 + 900) / 1600)
    assert two.recommended_psu_w < one.recommended_psu_w
    assert any("common ground" in line for line in two.assumptions)
    assert any("rig.psu.feeds" in line for line in two.assumptions)
    assert not any("common ground" in line for line in one.assumptions)
