"""Figures of power from hardware_db/power.toml and platforms.toml, as the core reasons with them."""

import re
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any

import tomli

from service.builtin import builtin_folder
from service.core.power.facts import Connector, Platform, PowerFacts, PsuClass


@cache
def power_facts() -> PowerFacts:
    """Read both files, once."""
    table = _table("power")
    draw, host, psu = table["draw"], table["host"], table["psu"]
    return PowerFacts(
        decode_fraction=draw["decode_fraction"],
        waiting_fraction=draw["waiting_fraction"],
        board_w=host["board_w"],
        host_idle_w=host["idle_w"],
        dimm_w=host["dimm_w"],
        nic_w=host["nic_w"],
        sustained_fraction=psu["sustained_warning_fraction"],
        largest_step=psu["largest_step"],
        other_step=psu["other_step"],
        synchronous_step=psu["synchronous_step"],
        worst_step=psu["worst_step"],
        standard_sizes_w=tuple(psu["standard_sizes_w"]),
        beyond_step_w=psu["beyond_step_w"],
        psu_classes=tuple(
            PsuClass(
                name=row["name"], versions=frozenset(row["versions"]), transient_fraction=row["transient_fraction"]
            )
            for row in table["psu_class"]
        ),
        efficiency={row["name"]: tuple((load, share) for load, share in row["curve"]) for row in table["efficiency"]},
        connectors={row["kind"]: _connector(row) for row in table["connector"]},
        platforms={row["slug"]: _platform(row) for row in _table("platforms")["platform"]},
        assumed_platform=_platform({"name": "a desktop processor", **_table("platforms")["assumed"]}),
    )


@lru_cache(maxsize=1024)
def platform_named(cpu: str) -> str | None:
    """Slug of the family that a processor's name belongs to, None where no pattern fits."""
    name = cpu.lower()
    return next((row["slug"] for row in _table("platforms")["platform"] if re.search(row["pattern"], name)), None)


@cache
def _table(name: str) -> Mapping[str, Any]:
    return tomli.loads((builtin_folder("hardware_db") / f"{name}.toml").read_text("utf-8"))


def _connector(row: Mapping[str, Any]) -> Connector:
    return Connector(
        kind=row["kind"],
        rated_w=row["watts"],
        lead=row["lead"],
        leads=row["leads"],
        adapter_lead=row.get("adapter_lead"),
        adapter_w=row.get("adapter_w"),
    )


def _platform(row: Mapping[str, Any]) -> Platform:
    return Platform(
        slug=row.get("slug"),
        name=row["name"],
        peak_w=row["peak_w"],
        gpu_only_w=row["gpu_only_w"],
        dimms=row["dimms"],
        lanes=row.get("lanes"),
        gen=row.get("gen"),
    )
