"""Rigs that requests name."""

import json
from collections.abc import Mapping
from datetime import date
from typing import Any

import jsonschema_rs
import pytest
import tomli

from service.builtin import builtin_folder
from service.catalog.rig_presets import RigPreset, rig_presets
from service.core.problems import UnknownRig
from tests.planner import ask

FOLDER = builtin_folder("hardware_db")
LLAMA_8B = "llama-3.1-8b:Q4_K_M"


def content(slug: str) -> Mapping[str, Any]:
    text = (FOLDER / "rigs" / f"{slug}.toml").read_text("utf-8")
    return json.loads(json.dumps(tomli.loads(text), default=date.isoformat))  # type: ignore[no-any-return]


@pytest.mark.parametrize("preset", rig_presets().values(), ids=lambda preset: preset.slug)
def test_every_preset_is_valid_and_can_be_planned_for(preset: RigPreset) -> None:
    """Each follows the schema, names its source, and holds a small model."""
    schema = json.loads((FOLDER / "rig_preset.schema.json").read_text("utf-8"))
    jsonschema_rs.validate(schema, content(preset.slug), validate_formats=True)
    plan = ask(LLAMA_8B, context_tokens=4096, rig={"preset": preset.slug})
    assert plan.fits
    assert plan.power is not None
    assert len(plan.devices) >= 1


def test_a_preset_is_the_rig_it_describes() -> None:
    """A named rig gives the plan of the rig written out, identity included."""
    rig = dict(rig_presets()["4x-3090-300w"].rig)
    named = ask(LLAMA_8B, context_tokens=4096, rig={"preset": "4x-3090-300w"})
    host = rig.pop("host")
    written = ask(LLAMA_8B, *rig.pop("gpus"), context_tokens=4096, rig=rig, host=host)
    assert named == written
    assert {"psu-sustained", "psu-transient"} <= {warning.code for warning in named.warnings}


def test_what_is_stated_takes_the_place_of_the_preset_s() -> None:
    """Cards, and single fields of the supply and the host, can be replaced."""
    plan = ask(
        LLAMA_8B, "2x rtx-4090", context_tokens=4096, host={"dimms": 4},
        rig={"preset": "4x-3090-300w", "psu": {"rated_w": 2000}},
    )  # fmt: skip
    assert [device.gpu for device in plan.devices] == ["rtx-4090", "rtx-4090"]
    assert plan.power is not None
    assert plan.power.psu_load_fraction == pytest.approx((900 + 300 + 50 + 4 * 4) / 2000)


def test_an_unknown_rig_is_a_problem_with_those_like_it() -> None:
    """No rig is guessed."""
    with pytest.raises(UnknownRig) as refused:
        ask(LLAMA_8B, context_tokens=4096, rig={"preset": "4x-3090-300"})
    assert "4x-3090-300w" in refused.value.suggestions


def test_measured_presets_draw_what_was_measured() -> None:
    """The presets made after measured systems meet their figures."""
    box = ask("llama-3.3-70b:Q4_K_M", context_tokens=8192, rig={"preset": "2x-3090-desktop"}).power
    assert box is not None
    assert box.wall_decode_w == pytest.approx(760, rel=0.2)
    assert 75 <= box.wall_idle_w <= 115
