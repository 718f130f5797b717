"""Memory of each device drawn with characters."""

from collections.abc import Iterator
from typing import Final

from service.contract.plan import DevicePlan, Plan
from service.core.units import GIB

CELLS: Final = 20
FREE: Final = "·"
OVER: Final = "!"
# what a device holds, with the character that stands for it
KINDS: Final = (
    ("weights_bytes", "█", "weights"),
    ("kv_bytes", "▓", "KV"),
    ("compute_bytes", "▒", "compute"),
    ("companion_bytes", "▞", "beside"),
    ("overhead_bytes", "░", "other"),
)
_LONGEST_NAME: Final = 20


def memory_lines(plan: Plan) -> Iterator[str]:
    """A legend, then one line per device and one for the host."""
    drawn = [kind for kind in KINDS if any(getattr(device, kind[0]) for device in plan.devices)]
    if drawn:
        yield "  ".join([*(f"{sign} {name}" for _, sign, name in drawn), f"{FREE} free"])
    width = max((len(_name(device)) for device in plan.devices), default=0)
    for device in plan.devices:
        yield (
            f"{_name(device):<{width}} {bar(device)} {_gib(device.total_bytes)} of {_gib(device.usable_bytes)} GiB, "
            f"{device.headroom_bytes / GIB:+.2f}; {_layers(device)}"
        )
    if plan.host.total_bytes:
        yield f"{'host':<{width}} {_gib(plan.host.total_bytes)} GiB"


def bar(device: DevicePlan, cells: int = CELLS) -> str:
    """How full a device is and with what; its end is marked where it needs more than there is.

    The boundaries between kinds are rounded, so that the parts add up to the whole.
    """
    scale = max(device.total_bytes, device.usable_bytes, 1)
    drawn, reached_bytes = "", 0
    for field, sign, _ in KINDS:
        reached_bytes += getattr(device, field)
        drawn += sign * (round(cells * reached_bytes / scale) - len(drawn))
    over = round(cells * (device.total_bytes - device.usable_bytes) / scale)
    if device.total_bytes > device.usable_bytes:
        over = max(1, over)
        return drawn[: cells - over].ljust(cells - over, FREE) + OVER * over
    return drawn[:cells].ljust(cells, FREE)


def _name(device: DevicePlan) -> str:
    return f"{device.index} {device.gpu}"[:_LONGEST_NAME]


def _layers(device: DevicePlan) -> str:
    count = sum(end - first for first, end in device.layers)
    return f"{count} layers{' + output' if device.holds_output else ''}"


def _gib(value: int) -> str:
    return f"{value / GIB:.2f}"
