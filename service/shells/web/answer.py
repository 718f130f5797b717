"""An answer as the page shows it: a plan in JSON, with its bars and what is worth saying first.

It is read as the contract's JSON, whose names never change, so that a plan kept by an earlier release is shown as well.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from service.contract.request import PlanRequest
from service.shells.web.bars import Bar, Segment, host_segments, legend, memory_bars, step_segments
from service.shells.web.formats import gib, rate, whole

PlanDocument: TypeAlias = Mapping[str, Any]

VERDICTS: Final = {
    "fits": "Fits",
    "fits_with_host_offload": "Fits with host offload",
    "does_not_fit": "Does not fit",
}
BASES: Final = {
    "measured": "from measurements of this very combination",
    "fitted": "fitted to measurements of such cards",
    "modelled": "from what the cards can do and how much of that the engine reaches",
    "assumed": "figures of the hardware are missing or untested",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the template draws."""

    plan: PlanDocument
    verdict: str
    rig: str
    devices: Sequence[tuple[Mapping[str, Any], str, Bar]]
    host: Sequence[Segment]
    steps: Sequence[Segment]
    legend: Sequence[tuple[str, str]]
    least_headroom_bytes: int | None
    settings: Sequence[tuple[str, str]]

    @property
    def headline(self) -> str:
        """The question in one line."""
        model, workload = self.plan["model"], self.plan["workload"]
        quant = f" {model['quant']}" if model.get("quant") else ""
        streams = f", {workload['parallel']} streams" if workload.get("parallel", 1) > 1 else ""
        context = f" at {whole(workload['context_tokens'])} tokens of context" if workload.get("context_tokens") else ""
        return f"{model['name'] or model['id']}{quant} on {self.rig}{context}{streams}"

    @property
    def peek(self) -> str:
        """The answer in a few words, for a small screen while the question is changed."""
        speed, most = self.plan["speed"], self.plan["max_context_tokens"]
        runs = speed and self.plan["verdict"] != "does_not_fit"
        parts = [f"{rate(speed['decode_tokens_per_s']['mid'])} tok/s"] if runs else []
        return " · ".join([self.verdict, *parts, *([f"up to {whole(most)} tokens"] if most else [])])

    @property
    def summary(self) -> str:
        """What is announced when the answer changes."""
        speed = self.plan["speed"]
        runs = speed and self.plan["verdict"] != "does_not_fit"
        pace = f", {rate(speed['decode_tokens_per_s']['mid'])} tokens per second" if runs else ""
        short = self.plan["shortfall_bytes"]
        return f"{self.verdict}{f', {gib(short)} GiB short' if short else ''}{pace}: {self.headline}"


def answer_of(plan: PlanDocument) -> Answer:
    """Draw a plan."""
    devices = plan["devices"]
    names = [device["gpu"] for device in devices]
    counted = (_counted(names.count(name), name) for name in dict.fromkeys(names))
    return Answer(
        plan=plan,
        verdict=VERDICTS[plan["verdict"]],
        rig=" + ".join(counted) or "the host alone",
        devices=[(device, layers_text(device), bar) for device, bar in zip(devices, memory_bars(devices), strict=True)],
        host=host_segments(plan["host"]),
        steps=step_segments(plan["speed"]["breakdown"] if plan["speed"] else []),
        legend=legend(plan),
        least_headroom_bytes=min((device["headroom_bytes"] for device in devices), default=None),
        settings=list(_settings(plan["engine"])),
    )


def supply_w(request: PlanRequest) -> float | None:
    """What the stated power supplies give together, None where none is stated."""
    psu = request.rig.psu
    return None if psu.rated_w is None else psu.rated_w * (psu.count or 1)


def _counted(count: int, name: str) -> str:
    return name if count == 1 else f"{count}\N{MULTIPLICATION SIGN} {name}"


def layers_text(device: Mapping[str, Any]) -> str:
    """The blocks that a card holds, first and last of each run, and whether the output is there too."""
    runs = [f"{first}" if end == first + 1 else f"{first}\N{EN DASH}{end - 1}" for first, end in device["layers"]]
    parts = [*runs, *(["output"] if device["holds_output"] else [])]
    count = sum(end - first for first, end in device["layers"])
    return f"{count} layers: {', '.join(parts)}" if runs else ", ".join(parts) or "no layers"


def _settings(engine: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Every setting of the engine that was resolved, as text."""
    for name, value in engine.items():
        if value is None or value == []:
            continue
        if isinstance(value, Mapping):
            yield from ((f"{name}.{field}", text) for field, text in _settings(value))
        else:
            yield name, _text(value)


def _text(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(_text(each) for each in value)
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
