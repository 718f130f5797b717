"""What the output of a tool says about a machine's cards."""

from dataclasses import dataclass, replace
from typing import Final, Protocol

from service.core.problems import Contradiction
from service.core.types import Backend


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenCard:
    """One device as a tool prints it; None where it does not.

    pcie_gen: the most that card and slot do together, not what an idle card fell back to; pcie_lanes: in use.
    free_bytes: only where a program can get all of it.
    """

    index: int
    name: str | None = None
    total_bytes: int | None = None
    used_bytes: int | None = None
    free_bytes: int | None = None
    power_limit_w: float | None = None
    pcie_gen: int | None = None
    pcie_lanes: int | None = None
    numa_node: int | None = None
    backend: Backend | None = None

    def completed(self, other: "SeenCard") -> "SeenCard":
        """This card, with what only the other says of it.

        Raises Contradiction where both name it and differently.
        """
        if None not in (self.name, other.name) and self.name != other.name:
            raise Contradiction(f"Card {self.index} is {self.name} in one output and {other.name} in another.")
        missing = {
            field: getattr(other, field) for field in self.__slots__ if getattr(self, field) is None
        }  # fmt: skip
        return replace(self, **missing)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What one tool's output says.

    nvlink: groups of cards that it shows joined, () for none, None where it does not say. peers: pairs of cards with
    whether they reach each other without the host.
    """

    tool: str
    cards: tuple[SeenCard, ...] = ()
    nvlink: tuple[tuple[int, ...], ...] | None = None
    peers: tuple[tuple[int, int, bool], ...] = ()
    notes: tuple[str, ...] = ()


LONGEST_LINE_CHARACTERS: Final = 500


@dataclass(frozen=True, slots=True)
class Pasted:
    """What somebody pasted: `whole` as it came, `text` with long lines cut off, for patterns to go over."""

    whole: str

    @property
    def text(self) -> str:
        """Lines as long as tools print them."""
        return "\n".join([line[:LONGEST_LINE_CHARACTERS] for line in self.whole.splitlines()])


class Tool(Protocol):
    """A tool whose output is read; a new one is a module and a row in this package's `TOOLS`."""

    name: str

    def read(self, pasted: Pasted) -> Reading | None:
        """What the tool's output says where it is part of what was pasted, else None."""
