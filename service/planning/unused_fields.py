"""Fields of the contract that no rule reads yet, named in a warning."""

from collections.abc import Iterator

from service.contract.plan import PlanWarning
from service.contract.request import PlanRequest


def unused_field_warnings(request: PlanRequest) -> Iterator[PlanWarning]:
    """Name each stated field that changes nothing in this plan."""
    rig = request.rig
    stated = {
        "rig.nvlink": rig.nvlink is not None,
        "rig.p2p": rig.p2p is not None,
        "rig.psu": rig.psu.rated_w is not None or rig.psu.atx_version is not None,
        "rig.circuit": rig.circuit.volts is not None or rig.circuit.amps is not None,
        "rig.slots": rig.slots is not None,
        "rig.gpus.power_limit_w": any(not isinstance(gpu, str) and gpu.power_limit_w is not None for gpu in rig.gpus),
    }
    for field, given in stated.items():
        if given:
            yield PlanWarning(
                code="field-not-used",
                severity="info",
                message=f"{field} was read and changes nothing in this plan: links and power are not modelled yet.",
                numbers={"field": field},
            )
