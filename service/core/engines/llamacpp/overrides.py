"""Tensors sent elsewhere than their slot: -ot, and --n-cpu-moe, in the order llama.cpp tries them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from service.core.engines.llamacpp.buffer_types import HOST_BUFFER_TYPE, buffer_rules
from service.core.engines.llamacpp.settings import OverrideTensor
from service.core.engines.llamacpp.slots import CPU
from service.core.engines.llamacpp.tensor_patterns import tensor_pattern
from service.core.problems import InvalidRequest
from service.core.types import Backend

EXPERTS_PATTERN: Final = r"\.ffn_(up|down|gate|gate_up)_(ch|)exps"
"""What --cpu-moe matches (LLM_FFN_EXPS_REGEX, common/common.h:1200, llama.cpp in llama-cpp-python 0.3.36)."""

_EXPERTS_OF_BLOCK = re.compile(r"blk\.(\d+)" + EXPERTS_PATTERN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """Tensors whose name `pattern` finds go to the device `target`, or to the host where it is CPU."""

    pattern: str
    target: int


def buffer_type_names(backends: Sequence[Backend]) -> tuple[str, ...]:
    """Buffer type of each device, as llama.cpp names them: backend and index among the devices of that backend.

    Source: ggml_backend_buft_name of the devices' default types (llama.cpp in llama-cpp-python 0.3.36). An RPC
    buffer type goes on with the server's address in brackets.
    """
    seen: dict[Backend, int] = {}
    names = []
    for backend in backends:
        index = seen.get(backend, 0)
        seen[backend] = index + 1
        names.append(buffer_rules(backend).name.format(index))
    return tuple(names)


def parse_override_tensor(text: str) -> tuple[OverrideTensor, ...]:
    """Entries of one -ot argument, `pattern=buffer type` separated by commas.

    Raises InvalidRequest for an entry without "=".
    Source: parse_tensor_buffer_overrides, common/arg.cpp:236-275 (llama.cpp in llama-cpp-python 0.3.36).
    """
    entries = []
    for entry in text.split(","):
        pattern, equals, buffer_type = entry.partition("=")
        if not equals:
            raise InvalidRequest(
                f"override_tensor entry {entry!r} is not of the form pattern=buffer type, as in "
                r"'blk\.1\.ffn_.*_exps=CPU'",
                fields=("engine.override_tensor",),
            )
        entries.append(OverrideTensor(pattern=pattern, buffer_type=buffer_type))
    return tuple(entries)


def resolve_overrides(entries: Sequence[OverrideTensor], backends: Sequence[Backend]) -> tuple[Override, ...]:
    """Overrides with device indices for buffer type names; patterns are checked here.

    Raises InvalidRequest for a buffer type that no device of the rig has, listing those there are.
    """
    if not entries:
        return ()
    names = buffer_type_names(backends)
    targets = {HOST_BUFFER_TYPE: CPU} | {name: device for device, name in enumerate(names)}
    resolved = []
    for entry in entries:
        tensor_pattern(entry.pattern)
        name = entry.buffer_type.partition("[")[0] if entry.buffer_type.startswith("RPC") else entry.buffer_type
        if name not in targets:
            raise InvalidRequest(
                f"override_tensor sends {entry.pattern!r} to the unknown buffer type {entry.buffer_type!r}; "
                f"this rig has {', '.join(targets)}",
                suggestions=tuple(targets),
                fields=("engine.override_tensor",),
            )
        resolved.append(Override(pattern=entry.pattern, target=targets[name]))
    return tuple(resolved)


class OverrideTable:
    """Where overrides send tensors, for many names: an entry whose literal text is not in a name is passed over.

    n_cpu_moe: routed experts of so many first blocks stay on the host, tried after `overrides`.
    Source: src/llama-model-loader.cpp:1234-1258, common/common.h:1198-1216 (llama.cpp in llama-cpp-python 0.3.36).
    """

    __slots__ = ("_entries", "_n_cpu_moe")

    def __init__(self, overrides: Sequence[Override], n_cpu_moe: int) -> None:
        patterns = [(tensor_pattern(override.pattern), override.target) for override in overrides]
        self._entries = [(pattern.literal, pattern.found_in, target) for pattern, target in patterns]
        self._n_cpu_moe = n_cpu_moe

    def target(self, name: str) -> int | None:
        """Where the tensor called `name` is sent, None where it follows its slot; the first match counts."""
        for literal, found_in, target in self._entries:
            if literal in name and found_in(name):
                return target
        if self._n_cpu_moe:
            match = _EXPERTS_OF_BLOCK.search(name)
            if match and int(match[1]) < self._n_cpu_moe:
                return CPU
        return None
