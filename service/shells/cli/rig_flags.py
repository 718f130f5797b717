"""Flags of `rigfit plan` about the machine around the cards: links, power, case."""

from typing import Annotated, Any, Final

import typer

Preset = Annotated[str | None, typer.Option("--rig", metavar="NAME", help="A rig by name; see rigfit rigs.")]
PowerLimit = Annotated[float | None, typer.Option("--power-limit", metavar="W", help="Power limit of every card.")]
P2p = Annotated[bool | None, typer.Option("--p2p/--no-p2p", help="Whether cards reach each other over PCI Express.")]
NoNvlink = Annotated[bool, typer.Option("--no-nvlink", help="No NVLink bridges are in place.")]
Slots = Annotated[int | None, typer.Option("--slots", help="Expansion slots of the case.")]
Chassis = Annotated[
    str | None, typer.Option("--chassis", metavar="desktop|open-frame|rack", help="What the cards sit in.")
]
Cpu = Annotated[str | None, typer.Option("--cpu", help="Processor, in words.")]
Psu = Annotated[float | None, typer.Option("--psu", metavar="W", help="Rating of the power supply.")]
PsuCount = Annotated[int | None, typer.Option("--psu-count", help="How many such supplies.")]
Atx = Annotated[str | None, typer.Option("--atx", metavar="VERSION", help="ATX version of the supply.")]
Volts = Annotated[float | None, typer.Option("--volts", help="Voltage of the wall circuit.")]
Amps = Annotated[float | None, typer.Option("--amps", help="Breaker of the wall circuit.")]
Tariff = Annotated[float | None, typer.Option("--tariff", help="Price of a kilowatt-hour, in any currency.")]

_PARTS: Final = {
    "psu": {"rated_w": "psu", "count": "psu_count", "atx_version": "atx"},
    "circuit": {"volts": "volts", "amps": "amps", "tariff_per_kwh": "tariff"},
}
_PLAIN: Final = ("preset", "p2p", "slots", "chassis")


def rig_of(flags: dict[str, Any]) -> dict[str, Any]:
    """State the flags that were given as parts of a request's rig; cards take their limit along."""
    rig: dict[str, Any] = {name: flags[name] for name in _PLAIN if flags.get(name) is not None}
    for part, fields in _PARTS.items():
        stated = {field: flags[flag] for field, flag in fields.items() if flags.get(flag) is not None}
        rig |= {part: stated} if stated else {}
    if flags.get("no_nvlink"):
        rig["nvlink"] = False
    limit_w = flags.get("power_limit_w")
    names = flags.get("gpus") or []
    return rig | {"gpus": names if limit_w is None else [{"gpu": name, "power_limit_w": limit_w} for name in names]}
