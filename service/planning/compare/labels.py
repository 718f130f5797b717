"""What the parts of a question are called in a table."""

from service.contract.engine import LlamaCppEngine, VllmEngine
from service.contract.model_reference import ModelPath, ModelReference
from service.contract.rig import GpuRequest, RigRequest

HOST_ALONE = "the host alone"


def model_label(model: ModelReference) -> str:
    """A model by its name, address or path."""
    if isinstance(model, str):
        return model
    return model.path if isinstance(model, ModelPath) else model.url


def rig_label(rig: RigRequest) -> str:
    """Cards with their numbers, "2x rtx-3090 + rtx-5090"; equal neighbours are counted."""
    counted: list[tuple[str, int]] = []
    for name, count in map(_card, rig.gpus):
        if counted and counted[-1][0] == name:
            counted[-1] = (name, counted[-1][1] + count)
        else:
            counted.append((name, count))
    return " + ".join(name if count == 1 else f"{count}x {name}" for name, count in counted) or HOST_ALONE


def engine_label(engine: LlamaCppEngine | VllmEngine) -> str:
    """The engine's name and what was stated about it."""
    stated = engine.model_dump(mode="json", exclude_defaults=True, exclude={"name"})
    return " ".join([engine.name, *(f"{field}={value}" for field, value in stated.items())])


def _card(entry: str | GpuRequest) -> tuple[str, int]:
    if isinstance(entry, str):
        return entry, 1
    return entry.gpu if isinstance(entry.gpu, str) else entry.gpu.name, entry.count
