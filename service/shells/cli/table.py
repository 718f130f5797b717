"""A plan as a table for people: the verdict first, then where the bytes are, the speed, the command."""

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from service.contract.estimate import Estimate
from service.contract.hardware import Power
from service.contract.plan import Alternative, DevicePlan, Plan
from service.core.units import GIB

MOST_BAR_CELLS, LEAST_BAR_CELLS = 10, 4
MOST_ALTERNATIVES = 4
LONGEST_NAME = 18
# columns of the table besides names and bar
OTHER_CELLS = 52
# the column of what runs beside the model, where there is any
COMPANION_CELLS = 7
FULL, EMPTY, OVER = "█", "░", "▓"
_VERDICTS = {
    "fits": ("FITS", "bold green"),
    "fits_with_host_offload": ("FITS WITH HOST OFFLOAD", "bold yellow"),
    "does_not_fit": ("DOES NOT FIT", "bold red"),
}
_SEVERITY_STYLES = {"info": "dim", "warning": "yellow", "error": "red"}


def print_plan(plan: Plan, console: Console | None = None) -> None:
    """Print a plan to the terminal."""
    console = console or Console(highlight=False, soft_wrap=False)
    console.print(render(plan, console.width))


def render(plan: Plan, width: int) -> RenderableType:
    """All parts of a plan, one below the other, for a terminal of `width` cells."""
    parts: list[RenderableType] = [_headline(plan), _context(plan), "", _bytes(plan, width), ""]
    if plan.speed is not None:
        parts.append(_speed(plan))
    if plan.power is not None:
        parts.append(_power(plan.power))
    parts += [Text(plan.command.text, style="cyan", overflow="fold")]
    notes: list[RenderableType] = [
        Text(f"{warning.severity}: {warning.message}", style=_SEVERITY_STYLES[warning.severity])
        for warning in plan.warnings
    ]
    notes += [Text(f"advice: {advice.message}", style="green") for advice in plan.advice]
    others: list[RenderableType] = [_other(other) for other in plan.alternatives[:MOST_ALTERNATIVES]]
    return Group(*parts, *([""] if others else []), *others, *([""] if notes else []), *notes)


def _other(other: Alternative) -> Text:
    """A runner-up in a line: what it is, how fast, how much context, and whether it fits."""
    parts = [f"or {other.label}: {_VERDICTS[other.verdict][0].lower()}"]
    if other.decode_tokens_per_s is not None:
        parts.append(f"decode {_short(other.decode_tokens_per_s.mid)} tok/s")
    if other.prefill_tokens_per_s is not None:
        parts.append(f"prefill {_short(other.prefill_tokens_per_s.mid)} tok/s")
    if other.max_context_tokens:
        parts.append(f"up to {other.max_context_tokens:,} tokens")
    return Text("; ".join(parts))


def _headline(plan: Plan) -> Text:
    word, style = _VERDICTS[plan.verdict]
    names = [device.gpu for device in plan.devices]
    rig = ", ".join(f"{names.count(name)}x {name}" for name in dict.fromkeys(names)) or "the host alone"
    quant = f" {plan.model.quant}" if plan.model.quant else ""
    return Text.assemble((word, style), f"  {plan.model.name or plan.model.id}{quant} on {rig}")


def _context(plan: Plan) -> Text:
    asked = plan.workload.context_tokens or 0
    line = f"at {asked:,} tokens of context"
    if plan.max_context_tokens:
        line += f"; up to {plan.max_context_tokens:,} fit with these choices"
    if plan.shortfall_bytes:
        line += f"; {_gib(plan.shortfall_bytes)} GiB short"
    return Text(line)


def _bytes(plan: Plan, width: int) -> Table:
    names = [f"{device.index} {device.gpu}"[:LONGEST_NAME] for device in plan.devices]
    layers = [_layers(device) for device in plan.devices]
    longest = max(map(len, ("device", *names))) + max(map(len, ("layers", *layers)))
    others = OTHER_CELLS + (COMPANION_CELLS if plan.companions else 0)
    cells = min(MOST_BAR_CELLS, max(LEAST_BAR_CELLS, width - longest - others))
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), caption="GiB", caption_justify="right")
    table.add_column("device", no_wrap=True)
    table.add_column("layers", no_wrap=True)
    beside = ("beside",) if plan.companions else ()
    for title in ("weights", "KV", "compute", "other", *beside, "total", "usable"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("free", justify="right", no_wrap=True)
    for device, name in zip(plan.devices, names, strict=True):
        table.add_row(name, *_device_cells(device, cells, beside=bool(beside)))
    host = plan.host
    figures = map(_gib, (host.weights_bytes, host.kv_bytes, host.compute_bytes))
    taken = [_gib(host.companion_bytes)] if beside else []
    table.add_row("host", "", *figures, "", *taken, _gib(host.total_bytes))
    return table


def _device_cells(device: DevicePlan, cells: int, *, beside: bool) -> tuple[RenderableType, ...]:
    taken = (device.companion_bytes,) if beside else ()
    figures = (device.weights_bytes, device.kv_bytes, device.compute_bytes, device.overhead_bytes, *taken)
    style = "green" if device.headroom_bytes >= 0 else "red"
    return (
        _layers(device),
        *map(_gib, (*figures, device.total_bytes, device.usable_bytes)),
        Text(bar(device.total_bytes, device.usable_bytes, cells), style=style),
        Text(f"{device.headroom_bytes / GIB:+.2f}", style=style),
    )


def _layers(device: DevicePlan) -> str:
    ranges = [f"{first}-{end - 1}" for first, end in device.layers]
    return "+".join([*ranges, *(["out"] if device.holds_output else [])]) or "none"


def bar(total_bytes: int, usable_bytes: int, cells: int) -> str:
    """How full a device is; hatched where it needs more than there is."""
    if total_bytes > usable_bytes:
        return OVER * cells
    filled = round(cells * total_bytes / usable_bytes) if usable_bytes else 0
    return FULL * filled + EMPTY * (cells - filled)


def _speed(plan: Plan) -> Text:
    speed = plan.speed
    assert speed is not None  # noqa: S101 - the caller looked
    parts = [f"decode {_range(speed.decode_tokens_per_s)} tok/s"]
    if plan.workload.parallel > 1:
        parts.append(f"{plan.workload.parallel} streams {_range(speed.aggregate_decode_tokens_per_s)} tok/s")
    if speed.prefill_tokens_per_s is not None:
        parts.append(f"prefill {_range(speed.prefill_tokens_per_s)} tok/s")
    if speed.ttft_s is not None:
        parts.append(f"first token {_range(speed.ttft_s)} s")
    parts.append(f"{speed.basis}, limited by {speed.limited_by.replace('_', ' ')}")
    return Text("; ".join(parts))


def _power(power: Power) -> Text:
    line = (
        f"power {power.system_peak_w:.0f} W at peak, {power.system_decode_w:.0f} W in decode, "
        f"{power.wall_peak_w:.0f} W at the wall; supply of {power.recommended_psu_w:.0f} W"
    )
    if power.energy_wh_per_1000_tokens is not None:
        line += f"; {_range(power.energy_wh_per_1000_tokens)} Wh per 1,000 tokens"
    if power.cost_per_1000_tokens is not None:
        line += f", which cost {power.cost_per_1000_tokens.mid:.2g}"
    return Text(line)


def _range(estimate: Estimate) -> str:
    return f"{_short(estimate.mid)} ({_short(estimate.low)}-{_short(estimate.high)})"


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _gib(value: int) -> str:
    return f"{value / GIB:.2f}"
