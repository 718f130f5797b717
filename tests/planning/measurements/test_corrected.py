"""Plans follow what was measured, and say so."""

import json
import shlex
from collections.abc import Mapping, Sequence
from math import exp
from typing import Any

import pytest

from service.contract.plan import Plan
from service.contract.validation import validate_request
from service.core.correction_constants import OTHER_BUILD, deviation
from service.planning.measurements.standing import RANGE_IN_DEVIATIONS
from service.planning.saved import keep_plan
from service.store.migrations import downgrade
from tests.databases import Databases, migrate_and_seed, opened
from tests.measurements.printed import as_json, row
from tests.planner import builtin_planner
from tests.planning.measurements.conftest import Measuring

QUESTION: dict[str, Any] = {
    "model": "llama-3.1-8b:Q4_K_M",
    "rig": {"gpus": ["rtx-3090"]},
    "workload": {"context_tokens": 8192, "prompt_tokens": 1024, "output_tokens": 256},
}
OTHER = QUESTION | {"model": "mistral-small-24b:Q4_K_M"}
DRIVER_NAMES = {"rtx-3090": "NVIDIA GeForce RTX 3090", "rx-7900-xtx": "AMD Radeon RX 7900 XTX"}
BACKENDS = {"cuda": "CUDA", "rocm": "ROCm"}


def asked(measuring: Measuring, question: Mapping[str, Any] = QUESTION) -> Plan:
    return measuring.planner.plan(validate_request(question))


def decode(plan: Plan) -> float:
    assert plan.speed is not None
    return plan.speed.decode_tokens_per_s.mid


def energy(plan: Plan) -> float:
    """Energy of a thousand tokens."""
    assert plan.power is not None
    assert plan.power.energy_wh_per_1000_tokens is not None
    return plan.power.energy_wh_per_1000_tokens.mid


def verified(plan: Plan, *, decode_factor: float, prefill_factor: float) -> str:
    """What llama-bench would print for a plan's command.verify if the rig were so much faster than predicted."""
    words = shlex.split(plan.command.verify)
    words = words[words.index("llama-bench") :]
    flags = dict(zip(words[1::2], words[2::2], strict=True))
    assert flags["-o"] == "json"
    assert plan.speed is not None
    assert plan.speed.prefill_tokens_per_s is not None
    rows: list[Mapping[str, Any]] = []
    cards = [DRIVER_NAMES[device.gpu] for device in plan.devices]
    base = {
        "gpu_info": ", ".join(cards),
        "backends": BACKENDS[plan.devices[0].backend],
        "model_filename": flags["-m"],
        "model_type": "llama 8B Q4_K - Medium",
        "model_size": plan.model.tensor_data_bytes,
        "model_n_params": plan.model.parameters,
        "n_gpu_layers": -1,
        "flash_attn": -1,
        "split_mode": flags.get("-sm", "layer"),
        "tensor_split": flags.get("-ts", "0.00"),
        "build_number": 1,
        "test_time": "2026-11-29T12:00:00Z",
    }
    for depth in (int(text) for text in flags.get("-d", "0").split(",")):
        prompt, output = int(flags["-p"]), int(flags["-n"])
        measured = {
            (prompt, 0): plan.speed.prefill_tokens_per_s.mid * prefill_factor,
            (0, output): plan.speed.decode_tokens_per_s.mid * decode_factor,
        }
        for (n_prompt, n_gen), rate in measured.items():
            changes = {"n_prompt": n_prompt, "n_gen": n_gen, "n_depth": depth, "avg_ts": rate, "stddev_ts": rate / 500}
            rows.append(row(**base, **changes))
    return as_json(rows)


@pytest.mark.parametrize("gpus", [["rtx-3090"], ["2x rtx-3090"], ["rx-7900-xtx"]])
def test_what_verifies_a_plan_makes_it_measured(gpus: Sequence[str], measuring: Measuring) -> None:
    """The output of command.verify comes back as this very configuration: the plan then is what was measured."""
    question = QUESTION | {"rig": {"gpus": list(gpus)}}
    before = asked(measuring, question)
    found = measuring.bring(verified(before, decode_factor=0.9, prefill_factor=0.8))
    assert found.quarantined == 0, found.measurements
    after = asked(measuring, question)
    assert before.speed is not None
    assert after.speed is not None
    assert after.speed.basis == "measured"
    assert decode(after) == pytest.approx(0.9 * decode(before), rel=0.01)
    assert energy(after) == pytest.approx(energy(before) * decode(before) / decode(after))
    assert after.speed.prefill_tokens_per_s is not None
    assert before.speed.prefill_tokens_per_s is not None
    assert after.speed.prefill_tokens_per_s.mid == pytest.approx(0.8 * before.speed.prefill_tokens_per_s.mid, rel=0.05)
    narrow, wide = after.speed.decode_tokens_per_s, before.speed.decode_tokens_per_s
    # much narrower, unless little more is left than what another build or another day differs by
    left = exp(2 * RANGE_IN_DEVIATIONS * deviation(OTHER_BUILD["decode"]))
    assert narrow.high / narrow.low < max(1.02 * left, 1 + 0.6 * (wide.high / wide.low - 1))
    assert narrow.high / narrow.low < wide.high / wide.low
    assert sum(step.s for step in after.speed.breakdown) == pytest.approx(1 / decode(after))
    assert after.id != before.id
    assert any("measurements say" in step for step in after.explanation)


def test_without_measurements_plans_are_those_of_the_files(measuring: Measuring) -> None:
    """An empty database changes nothing, the id included."""
    assert asked(measuring) == builtin_planner().plan(validate_request(QUESTION))


def test_other_models_of_the_card_move_less(measuring: Measuring) -> None:
    """A slow card is slow with every model, as far as one measurement can tell."""
    before, other = asked(measuring), asked(measuring, OTHER)
    measuring.bring(verified(before, decode_factor=0.8, prefill_factor=1.0))
    assert 0.8 < decode(asked(measuring, OTHER)) / decode(other) < 1.0


def test_other_backends_are_left_alone(measuring: Measuring) -> None:
    """What CUDA does says nothing of ROCm, and such a plan keeps its id."""
    question = QUESTION | {"rig": {"gpus": ["rx-7900-xtx"]}}
    before = asked(measuring, question)
    measuring.bring(verified(asked(measuring), decode_factor=0.8, prefill_factor=1.0))
    assert asked(measuring, question) == before


def test_quarantined_figures_move_nothing(measuring_anywhere: Measuring) -> None:
    """What is not believed changes no prediction."""
    before = asked(measuring_anywhere)
    found = measuring_anywhere.bring(as_json([row(avg_ts=900.0), row(stddev_ts=90.0), row(avg_ts=0.0)]))
    assert found.accepted == 0
    assert asked(measuring_anywhere) == before


def test_what_if_constants_are_not_corrected(measuring: Measuring) -> None:
    """Who states the constants gets what follows from them."""
    question = QUESTION | {"assumptions": {"bandwidth_fraction": 0.79}}
    before = asked(measuring, question)
    measuring.bring(verified(asked(measuring), decode_factor=0.8, prefill_factor=1.0))
    assert asked(measuring, question) == before


def test_calibration_shows_what_moved_what(measuring: Measuring) -> None:
    """Every level that was touched is listed with its factor and the measurements behind it."""
    found = measuring.bring(verified(asked(measuring), decode_factor=0.8, prefill_factor=0.8))
    calibration = measuring.planner.calibration()
    assert calibration.count == found.accepted
    (group,) = [group for group in calibration.groups if group.group.endswith("decode")]
    cards = [shift for shift in group.shifts if shift.level == "card"]
    assert [shift.what for shift in cards] == ["rtx-3090"]
    assert cards[0].factor < 1.0
    ids = {one.id for one in found.measurements if one.metric == "decode_tokens_per_s"}
    assert set(cards[0].measurements) == ids


def test_a_kept_plan_knows_the_measurements_behind_it(measuring_anywhere: Measuring) -> None:
    """A plan that was kept before a measurement stays as it was; the same question is another plan after it."""
    request = validate_request(QUESTION)
    first = keep_plan(measuring_anywhere.database, measuring_anywhere.planner, request)
    measuring_anywhere.bring(verified(asked(measuring_anywhere), decode_factor=0.8, prefill_factor=0.8))
    second, third = (keep_plan(measuring_anywhere.database, measuring_anywhere.planner, request) for _ in range(2))
    assert first.id != second.id == third.id
    assert first.data_version != second.data_version
    assert json.dumps(second.plan) != json.dumps(first.plan)


def test_another_process_sees_a_measurement(measuring_anywhere: Measuring) -> None:
    """Revisions tell every replica that measurements changed."""
    replica = Measuring(measuring_anywhere.database)
    before = asked(replica)
    measuring_anywhere.bring(verified(before, decode_factor=0.8, prefill_factor=0.8))
    assert decode(asked(replica)) < decode(before)


def test_a_database_of_an_earlier_release_is_planned_with(sqlite: Databases) -> None:
    """Without the table of measurements there are none, and catalogues are read all the same."""
    with opened(sqlite.copy_of("seeded", migrate_and_seed)) as database:
        downgrade(database, "0002")
        assert asked(Measuring(database)) == builtin_planner().plan(validate_request(QUESTION))
