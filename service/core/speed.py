"""What is said about speed: quantities with ranges, what they rest on, and what a request may assume instead."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

Basis = Literal["measured", "fitted", "modelled", "assumed"]
Limit = Literal["memory_bandwidth", "compute", "interconnect", "host_memory"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumptions:
    """What-if constants in place of the tables'; None keeps the tables'."""

    bandwidth_fraction: float | None = None
    fixed_s_per_device: float | None = None
    ignore_kv_reads: bool = False


class Step(NamedTuple):
    """One part of a decode step."""

    what: str
    s: float
