"""Rigs that requests can name (hardware_db/rigs)."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import tomli

from service.builtin import builtin_folder
from service.catalog.suggestions import close_names
from service.core.problems import UnknownRig


@dataclass(frozen=True, slots=True, kw_only=True)
class RigPreset:
    """One rig; `rig` as a request states it."""

    slug: str
    name: str
    description: str
    source: str
    as_of: str
    rig: Mapping[str, Any]


@cache
def rig_presets() -> Mapping[str, RigPreset]:
    """Every file, by slug, read once."""
    presets = {}
    for path in sorted((builtin_folder("hardware_db") / "rigs").glob("*.toml")):
        facts = tomli.loads(path.read_text("utf-8"))
        presets[path.stem] = RigPreset(
            slug=path.stem,
            name=facts["name"],
            description=facts["description"],
            source=facts["source"],
            as_of=facts["as_of"].isoformat(),
            rig=facts["rig"],
        )
    return presets


def rig_preset(slug: str) -> RigPreset:
    """The rig of a name; raises UnknownRig, with those that are like it."""
    presets = rig_presets()
    if slug not in presets:
        raise UnknownRig(
            f"There is no rig named {slug[:80]!r}; GET /rigs lists them.",
            suggestions=close_names(slug[:200], presets),
            fields=("rig.preset",),
        )
    return presets[slug]
