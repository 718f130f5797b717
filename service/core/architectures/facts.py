"""The architectures llama.cpp can load, by the name a file states in `general.architecture`."""

from collections.abc import Mapping
from types import MappingProxyType

from service.core.architectures.architecture import Architecture
from service.core.architectures.cacheless import CACHELESS
from service.core.architectures.dense import DENSE
from service.core.architectures.latent import LATENT
from service.core.architectures.recurrent import RECURRENT
from service.core.architectures.windowed import WINDOWED
from service.core.problems import Unsupported

__all__ = ["ARCHITECTURES", "Architecture", "architecture"]

ARCHITECTURES: Mapping[str, Architecture] = MappingProxyType(
    {row.name: row for row in (*CACHELESS, *DENSE, *LATENT, *RECURRENT, *WINDOWED)}
)


def architecture(name: str) -> Architecture:
    """Rules of the architecture called `name`.

    Raises `Unsupported` for a name llama.cpp does not know; callers may add suggestions.

    Source: LLM_ARCH_NAMES, src/llama-arch.cpp (llama.cpp in llama-cpp-python 0.3.36).
    """
    found = ARCHITECTURES.get(name)
    if found is None:
        raise Unsupported(
            f"architecture {name!r} is not known to llama.cpp of the newest rules here: "
            "convert the model to a known architecture, or use an engine that runs it",
            fields=("model",),
        )
    return found
