"""Warnings about power, cooling and links, as hardware_db/warnings.toml states them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from string import Formatter
from typing import Literal, TypeAlias

import tomli

from service.builtin import builtin_folder
from service.core.conditions import Condition, condition_of

Scope: TypeAlias = Literal["rig", "psu", "card"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HardwareWarning:
    """One row: what is said where all conditions hold.

    numbers: names of the facts that it carries; said: names of those in its sentence.
    """

    code: str
    severity: Literal["info", "warning", "error"]
    scope: Scope
    when: tuple[Condition, ...]
    message: str
    numbers: tuple[str, ...]
    said: frozenset[str]
    source: str


@cache
def hardware_warnings() -> Mapping[Scope, Sequence[HardwareWarning]]:
    """Read the table, once, by what a row is about.

    Raises ValueError for a condition that is none.
    """
    rows = tomli.loads((builtin_folder("hardware_db") / "warnings.toml").read_text("utf-8"))["warning"]
    read = [
        HardwareWarning(
            code=row["code"],
            severity=row["severity"],
            scope=row["scope"],
            when=tuple(map(condition_of, row["when"])),
            message=row["message"],
            numbers=tuple(row["numbers"]),
            said=frozenset(field for _, field, _, _ in Formatter().parse(row["message"]) if field),
            source=row["source"],
        )
        for row in rows
    ]
    return {scope: tuple(row for row in read if row.scope == scope) for scope in ("rig", "psu", "card")}
