"""Requests that name a rig instead of describing it."""

from collections.abc import Mapping
from typing import Any

from service.catalog.rig_presets import RigPreset, rig_preset
from service.contract.request import PlanRequest
from service.contract.rig import RigRequest

# parts of a rig whose fields take the place of a preset's one by one
_PARTS = ("host", "psu", "circuit")


def with_preset(request: PlanRequest) -> PlanRequest:
    """The request with the rig it names described, and what it states besides in the place of the preset's.

    Raises UnknownRig.
    """
    if request.rig.preset is None:
        return request
    return request.model_copy(update={"rig": rig_of_preset(rig_preset(request.rig.preset), request.rig)})


def rig_of_preset(preset: RigPreset, stated: RigRequest) -> RigRequest:
    """A preset's rig with what was stated in its place."""
    own = stated.model_dump(mode="json", exclude_unset=True, exclude={"preset"})
    merged: dict[str, Any] = {**preset.rig, **{field: value for field, value in own.items() if value not in (None, [])}}
    for part in _PARTS:
        given: Mapping[str, Any] = own.get(part) or {}
        merged[part] = {**preset.rig.get(part, {}), **given}
    return RigRequest.model_validate(merged)
