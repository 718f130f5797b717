"""What a rig needs at least, whatever its cards are: found by planning one imaginary card that holds everything."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from service.contract.plan import Plan
from service.contract.request import PlanRequest
from service.contract.rig import RigRequest
from service.contract.validation import validate_as
from service.core.problems import Contradiction, Unsupported
from service.planning.compare.table import Plans
from service.planning.recommend.builds import Build

# larger than any model
_SIZE_BYTES: Final = 2**56
_FILLED_BYTES: Final = _SIZE_BYTES // 2
# a backend that pads nothing, and, for engines that it does not drive, the newest cards of another
BOUNDLESS: Final = (
    {"name": "boundless card", "vram_bytes": _SIZE_BYTES, "backend": "vulkan"},
    {"name": "boundless card", "vram_bytes": _SIZE_BYTES, "backend": "cuda", "compute_capability": "10.0"},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """Bytes of weights and caches that lie on cards, and bytes read for one token; 0 where it is not known.

    By the model that needs most of each.
    """

    held_bytes: int
    read_bytes: int


def least_decode_s(build: Build, floor: Floor, *, in_turn: bool) -> float:
    """Least time of a token of one stream: all of its bytes are read, and no card holds more than it has room for.

    in_turn: the cards read one after the other, which is fastest with the fastest ones filled first; else all at once.
    A card without a known bandwidth bounds nothing.
    """
    cards = [(kind.bandwidth_bytes_per_s, kind.usable_bytes * count) for kind, count in build.parts]
    total = build.bandwidth_bytes_per_s
    if total is None or not floor.read_bytes:
        return 0.0
    if not in_turn:
        return floor.read_bytes / total
    left, time_s = floor.read_bytes, 0.0
    for bandwidth, room_bytes in sorted(cards, key=lambda card: -(card[0] or 0.0)):
        read = min(left, room_bytes)
        time_s += read / (bandwidth or 1.0)
        left -= read
    return time_s


def floor_of(questions: Sequence[PlanRequest], planner: Plans) -> Floor:
    """The least that any rig must hold and read.

    Raises what is wrong with the question whatever the rig: an unknown model, a value out of range. What the engine
    refuses for the imaginary card bounds nothing.
    """
    held, read = [0], [0]
    for question in questions:
        plan = _boundless(question, planner)
        if plan is None:
            continue
        held.append(_held_bytes(plan))
        read.append(sum(device.read_bytes_per_token for device in plan.devices))
    return Floor(held_bytes=max(held), read_bytes=max(read))


def _boundless(question: PlanRequest, planner: Plans) -> Plan | None:
    """The plan on one imaginary card; None where the engine runs on none of them."""
    for card in BOUNDLESS:
        rig = validate_as(RigRequest, {"gpus": [{"gpu": card}]})
        try:
            return planner.plan(question.model_copy(update={"rig": rig}))
        except (Unsupported, Contradiction):
            continue
    return None


def _held_bytes(plan: Plan) -> int:
    """Weights and caches; weights alone of an engine whose cache takes whatever is there."""
    return sum(
        device.weights_bytes + (device.kv_bytes if device.total_bytes < _FILLED_BYTES else 0) for device in plan.devices
    )
