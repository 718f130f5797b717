"""Rigs that can be named, and rigs read from what tools print."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from service.contract.quantities import ANSWER, REQUEST
from service.contract.rig import RigGpu

LONGEST_TEXT_CHARACTERS = 400_000
EXAMPLE_OUTPUT = (
    "index, name, memory.total [MiB], power.limit [W], pcie.link.gen.max, pcie.link.width.current\n"
    "0, NVIDIA GeForce RTX 3090, 24576 MiB, 280.00 W, 4, 8\n"
    "1, NVIDIA GeForce RTX 3090, 24576 MiB, 280.00 W, 4, 8\n"
)


class RigSummary(BaseModel):
    """A rig that requests can name as `rig.preset`."""

    model_config = ANSWER

    slug: str = Field(examples=["4x-3090-open-frame"])
    name: str
    description: str
    source: str = Field(description="Whose system it is, or what it is made after.")
    as_of: str = Field(examples=["2026-11-30"])
    rig: dict[str, JsonValue] = Field(description="The rig as a PlanRequest states it.")


class ParseRequest(BaseModel):
    """What tools printed, to be read into a rig."""

    model_config = ConfigDict(**REQUEST, json_schema_extra={"examples": [{"text": EXAMPLE_OUTPUT}]})

    text: Annotated[str, Field(strict=True, min_length=1, max_length=LONGEST_TEXT_CHARACTERS)] = Field(
        description="Output of one tool or of several, one after the other: nvidia-smi (alone, -q, -L, --query-gpu "
        "with --format=csv, topo -m, topo -p2p r), rocm-smi, llama-server --list-devices.",
        examples=[EXAMPLE_OUTPUT],
    )
    gpus: Annotated[list[RigGpu], Field(max_length=1000)] = Field(
        default_factory=list, description="The cards, where the text does not name them.", examples=[["2x rtx-3090"]]
    )


class ParsedRig(BaseModel):
    """A rig as tools show it."""

    model_config = ANSWER

    rig: dict[str, JsonValue] = Field(description="To be used as `rig` of a PlanRequest.")
    tools: list[str] = Field(description="Tools whose output was found.", examples=[["nvidia-smi -q"]])
    notes: list[str] = Field(description="What was found and is no part of a rig, or could not be told.")
