"""Rigs and the warnings they must and must not raise."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import tomli

from service.builtin import builtin_folder
from service.catalog.hardware_warnings import hardware_warnings
from service.contract.plan import PlanWarning
from service.core.conditions import Facts
from service.core.types import Rig
from service.planning.hardware.facts import card_facts, psu_facts, rig_facts
from service.planning.hardware.power import rig_budget
from service.planning.hardware.work import Mode
from tests.planner import ask, builtin_planner

RIGS = tomli.loads((Path(__file__).parent / "rigs.toml").read_text("utf-8"))["rig"]
CODES = {row.code for rows in hardware_warnings().values() for row in rows}
TABLE = builtin_folder("hardware_db") / "warnings.toml"
MODEL = "llama-3.1-8b:Q4_K_M"


def raised(row: dict[str, Any]) -> list[PlanWarning]:
    """Warnings about hardware of a plan on a rig, spread over all its cards."""
    engine = {"split_mode": "layer", **row.get("engine", {})} if len(row["gpus"]) else {}
    shares = {"n_gpu_layers": "all"} if row["gpus"] else {}
    plan = ask(
        MODEL,
        *row["gpus"],
        context_tokens=4096,
        host=row.get("host", {}),
        rig=row.get("rig", {}),
        workload=row.get("workload", {}),
        engine=engine | shares,
    )
    return [warning for warning in plan.warnings if warning.code in CODES]


def matches(warning: PlanWarning, wanted: str) -> bool:
    """Whether a warning is meant by "code" or "code:severity"."""
    code, _, severity = wanted.partition(":")
    return warning.code == code and severity in ("", warning.severity)


@pytest.mark.parametrize("row", RIGS, ids=lambda row: row["name"])
def test_a_rig_raises_what_applies_and_nothing_else(row: dict[str, Any]) -> None:
    """Each rig raises the warnings its row demands and none that the row rules out."""
    found = raised(row)
    assert [wanted for wanted in row["must"] if not any(matches(warning, wanted) for warning in found)] == []
    if row["must_not"] == ["*"]:
        unwanted = [warning for warning in found if not any(matches(warning, wanted) for wanted in row["must"])]
    else:
        unwanted = [warning for warning in found if any(matches(warning, ruled_out) for ruled_out in row["must_not"])]
    assert [(warning.code, warning.message) for warning in unwanted] == []


@pytest.mark.parametrize("row", RIGS, ids=lambda row: row["name"])
def test_a_warning_carries_its_numbers(row: dict[str, Any]) -> None:
    """Every warning has a number, and a digit in its sentence."""
    for warning in raised(row):
        values = warning.numbers.values()
        assert any(isinstance(value, int | float) for value in values)
        assert any(character.isdigit() for character in warning.message)
        assert "None" not in warning.message


def test_the_table_of_rigs_covers_the_table_of_warnings() -> None:
    """There are at least sixty rigs, and every warning is demanded by one and ruled out by another."""
    demanded = {wanted.partition(":")[0] for row in RIGS for wanted in row["must"]}
    ruled_out = {wanted.partition(":")[0] for row in RIGS for wanted in row["must_not"]}
    assert len(RIGS) >= 60
    assert demanded == CODES
    assert ruled_out - {"*"} <= CODES
    assert CODES - ruled_out == set()


def test_the_table_follows_its_schema_and_is_sorted() -> None:
    """The file is valid, its rows stand by code, and every row says where it comes from."""
    table = json.loads(json.dumps(tomli.loads(TABLE.read_text("utf-8")), default=date.isoformat))
    schema = json.loads((TABLE.parent / "warnings.schema.json").read_text("utf-8"))
    jsonschema_rs.validate(schema, table, validate_formats=True)
    codes = [row["code"] for row in table["warning"]]
    assert codes == sorted(codes)


def test_every_name_of_the_table_is_a_fact() -> None:
    """Conditions, sentences and numbers of each row name facts that rules compute."""
    facts = dict(facts_of_a_rig())
    for scope, rows in hardware_warnings().items():
        for row in rows:
            named = {name for condition in row.when for name in condition.names} | set(row.numbers) | row.said
            assert named <= facts[scope].keys(), row.code


def facts_of_a_rig() -> Iterator[tuple[str, Facts]]:
    """Facts of each scope, of a rig that has all of them."""
    gpus = builtin_planner().catalogues.gpus.gpus("2x rtx-3090")
    rig = Rig(gpus=gpus)
    rig = replace(rig, machine=replace(rig.machine, psu=replace(rig.machine.psu, rated_w=1000)))
    mode = Mode(
        together=True, host_works=False, sharing=(0, 1), prompt_heavy=True, serves=True, n_embd=8192,
        meetings_per_token=160, ubatch_tokens=512,
    )  # fmt: skip
    budget = rig_budget(rig, host_works=False, in_step=True)
    yield "rig", rig_facts(rig, mode, budget)
    yield "psu", next(psu_facts(rig, budget))
    yield "card", next(card_facts(rig, mode))
