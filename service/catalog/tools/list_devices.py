"""`llama-server --list-devices`: what llama.cpp itself would use, with the memory that it gets.

Source: common/arg.cpp, --list-devices (llama.cpp in llama-cpp-python 0.3.36).
"""

import re
from typing import Final

from service.catalog.tools.reading import Pasted, Reading, SeenCard
from service.core.types import Backend
from service.core.units import MIB

_DEVICE: Final = re.compile(
    r"^\s*(CUDA|ROCm|Vulkan|SYCL|Metal|MTL|RPC)(\d*)(?:\[[^\]]*\])?: (.+?) \((\d+) MiB, (\d+) MiB free\)\s*$",
    re.MULTILINE,
)
_BACKENDS: Final[dict[str, Backend]] = {
    "CUDA": "cuda", "ROCm": "rocm", "Vulkan": "vulkan", "SYCL": "sycl", "Metal": "metal", "MTL": "metal", "RPC": "rpc",
}  # fmt: skip


class ListDevices:
    """llama-server --list-devices, and the other programs of llama.cpp that take it."""

    name = "llama-server --list-devices"

    def read(self, pasted: Pasted) -> Reading | None:
        """Devices in order; where a build has two backends for the same cards, those of the first."""
        text = pasted.text
        found = list(_DEVICE.finditer(text))
        if not found:
            return None
        first = next((each[1] for each in found if each[1] != "RPC"), "RPC")
        used = [each for each in found if each[1] in (first, "RPC")]
        cards = [
            SeenCard(
                index=index,
                name=None if each[1] == "RPC" else each[3],
                total_bytes=int(each[4]) * MIB,
                free_bytes=int(each[5]) * MIB,
                backend=_BACKENDS[each[1]],
            )
            for index, each in enumerate(used)
        ]
        left_out = len(found) - len(used)
        notes = (f"{left_out} devices of other backends are the same cards again and left out.",) if left_out else ()
        return Reading(tool=self.name, cards=tuple(cards), notes=notes)
