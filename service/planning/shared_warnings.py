"""What to know about a plan whatever engine it is for, as codes with their numbers; one function per warning."""

from collections.abc import Iterable, Iterator

from service.catalog.gpus import GpuCatalog
from service.contract.plan import PlanWarning
from service.core.types import Rig
from service.planning.rig import unverified_values

_ORDER = {"error": 0, "warning": 1, "info": 2}


def gravest_first(warnings: Iterable[PlanWarning]) -> list[PlanWarning]:
    """Warnings in the order in which answers list them."""
    return sorted(warnings, key=lambda warning: _ORDER[warning.severity])


def no_bandwidth(rig: Rig) -> PlanWarning:
    """No speed is told, because cards have no bandwidth that is known."""
    unknown = list(dict.fromkeys(gpu.slug for gpu in rig.gpus if gpu.bandwidth_bytes_per_s is None))
    return PlanWarning(
        code="no-bandwidth",
        severity="warning",
        message=f"No speed: the memory bandwidth of {', '.join(unknown)} is not known.",
        numbers={"gpus": unknown},
    )


def model_references(notes: Iterable[str], model: str) -> Iterator[PlanWarning]:
    """What was read into the name of a model, which is `model`."""
    for note in notes:
        yield PlanWarning(code="model-reference", severity="info", message=note, numbers={"model": model})


def unverified_data(rig: Rig, gpus: GpuCatalog) -> Iterator[PlanWarning]:
    """Figures of the rig's cards that were not read at their source again."""
    for slug, fields in unverified_values(rig, gpus):
        yield PlanWarning(
            code="unverified-data",
            severity="info",
            message=f"Not re-read at their source for {slug}: {', '.join(fields)}.",
            numbers={"gpu": slug, "fields": list(fields)},
        )
