"""Tools whose output is read into a rig; a new one is a module with a `Tool` and a row here."""

from collections.abc import Sequence
from typing import Final

from service.catalog.tools.list_devices import ListDevices
from service.catalog.tools.nvidia_csv import NvidiaCsv
from service.catalog.tools.nvidia_query import NvidiaQuery
from service.catalog.tools.nvidia_table import NvidiaList, NvidiaTable
from service.catalog.tools.nvidia_topology import NvidiaPeers, NvidiaTopology
from service.catalog.tools.reading import Pasted, Reading, Tool
from service.catalog.tools.rocm import RocmSmi

# what says most about a card comes first: others only complete it
TOOLS: Final[Sequence[Tool]] = (
    NvidiaQuery(), NvidiaCsv(), NvidiaTable(), NvidiaList(), RocmSmi(), ListDevices(), NvidiaTopology(), NvidiaPeers(),
)  # fmt: skip


def read_tools(text: str) -> Sequence[Reading]:
    """What every tool whose output is part of the text says."""
    pasted = Pasted(text)
    return [reading for tool in TOOLS if (reading := tool.read(pasted)) is not None]
