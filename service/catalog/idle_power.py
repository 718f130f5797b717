"""What cards draw without work (hardware_db/idle_power.toml)."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import tomli

from service.builtin import builtin_folder
from service.core.board import Form


def idle_power(slug: str, form: Form | None, tdp_w: float | None) -> tuple[float | None, float | None]:
    """Draw of a card empty and with a model in memory, in watts: as seen, else as assumed for its form.

    None where nothing is known, as of a system's own chip.
    """
    seen = _rows()["idle"].get(slug)
    assumed = _rows()["assumed"]
    if seen is not None:
        idle = float(seen["idle_w"])
        return idle, float(seen.get("loaded_w", idle + assumed["model_w"]))
    if form == "module":
        module = None if tdp_w is None else assumed["module_fraction"] * tdp_w
        return module, module
    if form == "chip":
        return None, None
    return float(assumed["idle_w"]), float(assumed["idle_w"] + assumed["model_w"])


@cache
def _rows() -> Mapping[str, Any]:
    table = tomli.loads((builtin_folder("hardware_db") / "idle_power.toml").read_text("utf-8"))
    return {"assumed": table["assumed"], "idle": {row["slug"]: row for row in table["idle"]}}
