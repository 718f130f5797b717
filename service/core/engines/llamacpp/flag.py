"""Flags of llama.cpp's programs with what they do, and the words that all of them are made of."""

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from service.core.engines.llamacpp.overrides import buffer_type_names
from service.core.engines.llamacpp.settings import OverrideTensor
from service.core.types import Model, Rig

RPC_PORT: Final = 50052
"""Port ggml-rpc-server listens on unless told otherwise (tools/rpc/rpc-server.cpp)."""

SMALLEST_SHARE: Final = 2.0**-126
"""The smallest normal float."""


class Flag(NamedTuple):
    """Words of a command line that belong together, or a variable of its environment, and what they do."""

    words: tuple[str, ...]
    meaning: str


@dataclass(frozen=True, slots=True, eq=False)
class FlagRun:
    """Flags in a row, all their words, and these as a shell reads them.

    Compared by identity: most commands share all runs but those of the context and the shares.
    """

    flags: tuple[Flag, ...]
    words: tuple[str, ...]
    text: str


def plain_run(word: str, value: str, meaning: str) -> FlagRun:
    """One flag whose value no shell reads as anything else: digits, points and separators."""
    words = (word, value)
    return FlagRun((Flag(words, meaning),), words, f"{word} {value}")


def run_of(flags: Iterable[Flag]) -> FlagRun:
    """These flags, spelled out."""
    flags = tuple(flags)
    words = tuple([word for flag in flags for word in flag.words])
    return FlagRun(flags, words, shlex.join(words))


@lru_cache(maxsize=1024)
def file_name(model: Model) -> str:
    """A name as model files have them, "llama-3.3-70b-Q4_K_M.gguf"; "model.gguf" where nothing is known."""
    words = [word for word in (model.name, model.quant) if word]
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", "-".join(words)).strip("-.")
    return f"{name or 'model'}.gguf"


def number(value: float) -> str:
    """A share without a fraction that is none; one that a float is too small for is none either.

    Source: std::stof, which refuses it, common/arg.cpp:2848 (llama.cpp in llama-cpp-python 0.3.36).
    """
    if value < SMALLEST_SHARE:
        return "0"
    return str(int(value)) if value == int(value) else repr(value)


def addresses(rig: Rig) -> tuple[str, ...]:
    """Placeholders for the addresses of the RPC servers of a rig, in its order."""
    return tuple(
        f"rpc-server-{index}:{RPC_PORT}" for index, _ in enumerate(gpu for gpu in rig.gpus if gpu.backend == "rpc")
    )


def override_entry(override: OverrideTensor, rig: Rig) -> str:
    """One -ot entry; a server's buffer type is named by its index there and its address."""
    name = override.buffer_type
    names = [name for name in buffer_type_names([gpu.backend for gpu in rig.gpus]) if name.startswith("RPC")]
    if name in names:
        name = f"RPC0[{addresses(rig)[names.index(name)]}]"
    return f"{override.pattern}={name}"
