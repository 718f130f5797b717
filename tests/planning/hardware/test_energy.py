"""Energy of generated tokens, compared with what was published."""

from pathlib import Path
from typing import Any

import pytest
import tomli

from service.contract import estimate as contract
from service.contract.validation import validate_request
from service.core.estimate import Estimate
from service.core.power.energy import cost, kwh_per_year, wh_per_1000_tokens
from service.planning.hardware.power import at_rate, power_of
from service.planning.hardware.work import Mode, Work
from service.planning.rig import rig_of
from tests.planner import ask, builtin_planner

MEASUREMENTS = tomli.loads((Path(__file__).parent / "energy.toml").read_text("utf-8"))["measurement"]
LARGEST_ERROR = 0.20


@pytest.mark.parametrize("row", MEASUREMENTS, ids=lambda row: row["source"][:60])
def test_published_energy_per_token_is_met(row: dict[str, Any]) -> None:
    """At the published rate, predicted energy per 1,000 tokens is within 20 % of the published one."""
    request = validate_request({"model": "any", "rig": {"gpus": row["gpus"]}})
    rig = rig_of(request.rig, builtin_planner().catalogues.gpus)
    cards, rate = len(rig.gpus), row["tokens_per_s"]
    mode = Mode(
        together=False, host_works=False, sharing=tuple(range(cards)), prompt_heavy=False, serves=True, n_embd=8192,
        meetings_per_token=160, ubatch_tokens=512,
    )  # fmt: skip
    power = power_of(
        rig,
        Work(
            mode=mode,
            busy_fractions=(1 / cards,) * cards,
            tokens_per_s=Estimate(low=rate, mid=rate, high=rate),
            weights_bytes=(1,) * cards,
        ),
    )
    assert power is not None
    assert power.energy_wh_per_1000_tokens is not None
    predicted_wh = power.energy_wh_per_1000_tokens.mid
    if not row.get("at_wall"):
        predicted_wh = wh_per_1000_tokens(power.gpus_decode_w, rate)
    assert predicted_wh == pytest.approx(wh_per_1000_tokens(row["watts"], rate), rel=LARGEST_ERROR)


def test_an_idle_machine_with_two_3090_draws_what_was_measured() -> None:
    """About 90 W at the wall without a model in memory, some more with one."""
    plan = ask("llama-3.1-8b:Q4_K_M", "2x rtx-3090", context_tokens=4096)
    assert plan.power is not None
    assert 90 <= plan.power.wall_idle_w <= 120


def test_energy_follows_from_the_wall_and_the_rate() -> None:
    """A plan's energy is its wall power over its tokens, and a tariff prices it."""
    plan = ask(
        "llama-3.1-8b:Q4_K_M", "rtx-3090", context_tokens=4096, rig={"circuit": {"tariff_per_kwh": 0.25}},
        workload={"parallel": 2},
    )  # fmt: skip
    power, speed = plan.power, plan.speed
    assert power is not None
    assert speed is not None
    energy, price = power.energy_wh_per_1000_tokens, power.cost_per_1000_tokens
    assert energy is not None
    assert price is not None
    rate = speed.aggregate_decode_tokens_per_s
    assert energy.mid == pytest.approx(power.wall_decode_w * 1000 / rate.mid / 3600)
    assert energy.low == pytest.approx(power.wall_decode_w * 1000 / rate.high / 3600)
    assert price.high == pytest.approx(energy.high / 1000 * 0.25)
    assert power.idle_cost_per_year == pytest.approx(kwh_per_year(power.wall_idle_w) * 0.25)


def test_another_rate_moves_the_energy_alone() -> None:
    """Where measurements say that tokens come twice as fast, each takes half the energy and costs half as much."""
    plan = ask("llama-3.1-8b:Q4_K_M", "rtx-3090", context_tokens=4096, rig={"circuit": {"tariff_per_kwh": 0.25}})
    power, speed = plan.power, plan.speed
    assert power is not None
    assert speed is not None
    rate = speed.aggregate_decode_tokens_per_s
    twice = at_rate(power, contract.Estimate(low=2 * rate.low, mid=2 * rate.mid, high=2 * rate.high), 0.25)
    for moved, own in (
        (twice.energy_wh_per_1000_tokens, power.energy_wh_per_1000_tokens),
        (twice.cost_per_1000_tokens, power.cost_per_1000_tokens),
    ):
        assert moved is not None
        assert own is not None
        assert (moved.low, moved.mid, moved.high) == pytest.approx((own.low / 2, own.mid / 2, own.high / 2))
    assert twice.wall_decode_w == power.wall_decode_w


def test_prices_and_years_are_plain_arithmetic() -> None:
    """3 Wh at 0.30 a kilowatt-hour cost 0.0009; 100 W are 876.6 kWh a year."""
    assert cost(3, 0.30) == pytest.approx(0.0009)
    assert kwh_per_year(100) == pytest.approx(876.6)
