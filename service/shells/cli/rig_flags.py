"""Flags of `rigfit plan` about the machine around the cards: links, power, case."""

import inspect
from collections.abc import Callable
from typing import Annotated, Any, Final

import typer

from service.shells.cli import vllm_flags

_Text = str | None
_Whole = int | None
_Number = float | None
# name of the parameter → its type and how it is spelled
FLAGS: Final[dict[str, Any]] = {
    "cpu": Annotated[_Text, typer.Option("--cpu", help="Processor, in words.")],
    "preset": Annotated[_Text, typer.Option("--rig", metavar="NAME", help="A rig by name; see rigfit rigs.")],
    "power_limit_w": Annotated[_Number, typer.Option("--power-limit", metavar="W", help="Power limit of every card.")],
    "p2p": Annotated[
        bool | None, typer.Option("--p2p/--no-p2p", help="Whether cards reach each other over PCI Express.")
    ],
    "nvlink": Annotated[bool | None, typer.Option("--nvlink/--no-nvlink", help="Whether bridges are in place.")],
    "slots": Annotated[_Whole, typer.Option("--slots", help="Expansion slots of the case.")],
    "chassis": Annotated[
        _Text, typer.Option("--chassis", metavar="desktop|open-frame|rack", help="What the cards sit in.")
    ],
    "psu": Annotated[_Number, typer.Option("--psu", metavar="W", help="Rating of the power supply.")],
    "psu_count": Annotated[_Whole, typer.Option("--psu-count", help="How many such supplies.")],
    "atx": Annotated[_Text, typer.Option("--atx", metavar="VERSION", help="ATX version of the supply.")],
    "volts": Annotated[_Number, typer.Option("--volts", help="Voltage of the wall circuit.")],
    "amps": Annotated[_Number, typer.Option("--amps", help="Breaker of the wall circuit.")],
    "tariff": Annotated[_Number, typer.Option("--tariff", help="Price of a kilowatt-hour, in any currency.")],
}

_PARTS: Final = {
    "psu": {"rated_w": "psu", "count": "psu_count", "atx_version": "atx"},
    "circuit": {"volts": "volts", "amps": "amps", "tariff_per_kwh": "tariff"},
}
_PLAIN: Final = ("preset", "p2p", "nvlink", "slots", "chassis")


def with_machine_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command that takes them as keywords these flags and vLLM's, for typer to see, in place of `**machine`."""
    signature = inspect.signature(command)
    own = [each for each in signature.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
    machine = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        for name, annotation in {**FLAGS, **vllm_flags.FLAGS}.items()
    ]
    command.__signature__ = signature.replace(parameters=[*own, *machine])  # type: ignore[attr-defined]
    return command


def rig_of(flags: dict[str, Any]) -> dict[str, Any]:
    """State the flags that were given as parts of a request's rig; cards take their limit along."""
    from service.contract.plan_query import cards_of_text  # noqa: PLC0415 - the flags alone need no contract

    rig: dict[str, Any] = {name: flags[name] for name in _PLAIN if flags.get(name) is not None}
    for part, fields in _PARTS.items():
        stated = {field: flags[flag] for field, flag in fields.items() if flags.get(flag) is not None}
        rig |= {part: stated} if stated else {}
    limit_w = flags.get("power_limit_w")
    cards = [card for entry in flags.get("gpus") or [] for card in cards_of_text(entry)]
    if limit_w is None:
        return rig | {"gpus": cards}
    limited = (card if isinstance(card, dict) else {"gpu": card} for card in cards)
    return rig | {"gpus": [{"power_limit_w": limit_w} | card for card in limited]}
