"""Which cards a benchmark ran on, as a request names them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from service.catalog.gpu_names import parse_count
from service.catalog.gpu_records import vendors
from service.catalog.gpus import GpuCatalog
from service.core.problems import PlanProblem
from service.measurements.runs import Setup

BACKENDS: Final[Mapping[str, str | None]] = {
    "cuda": "cuda", "rocm": "rocm", "hip": "rocm", "vulkan": "vulkan", "metal": "metal", "mtl": "metal",
    "sycl": "sycl", "rpc": "rpc", "cpu": "cpu", "blas": None, "zendnn": None, "amx": None, "accelerate": None,
}  # fmt: skip
"""Names of backends as llama-bench prints them, and as requests call them; None for what computes on the processor.

Source: ggml_backend_reg_name of every backend (llama.cpp in llama-cpp-python 0.3.36); Metal was called so until 2025.
"""

_ADDRESS: Final = re.compile(r"RPC.*|.*:\d{2,5}\]?")
_DEVICE: Final = re.compile(r"([A-Za-z]+)(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class RigMatch:
    """Cards as a request names them, in order, () for a processor alone; or why they are not known."""

    gpus: tuple[Mapping[str, Any], ...] = ()
    slugs: tuple[str, ...] = ()
    code: str = ""
    reason: str = ""
    candidates: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Mismatch(Exception):
    """Why cards are not known."""

    code: str
    reason: str
    candidates: tuple[str, ...] = ()


def matched_rig(setup: Setup, gpus: GpuCatalog, named: Sequence[str], backend: str | None = None) -> RigMatch:
    """Find the cards; `named` are those that the caller states, in the order the program saw them.

    backend: what drove them, where the program was built for several. Raises UnknownGpu for a card that is none.
    """
    try:
        backends = _backends(setup) if backend is None else frozenset({backend})
        if setup.engine == "llama.cpp" and not backends - {"cpu"}:
            return RigMatch()
        if setup.flags.devices and setup.flags.devices[0] == "none":
            return RigMatch()
        seen = _seen(setup, gpus, named)
        chosen = _chosen(seen, setup)
        return RigMatch(
            gpus=tuple({"gpu": slug, "backend": _backend(slug, address, backends, gpus)} for slug, address in chosen),
            slugs=tuple(slug for slug, _ in chosen),
        )
    except _Mismatch as mismatch:
        return RigMatch(code=mismatch.code, reason=mismatch.reason, candidates=mismatch.candidates)


def _backends(setup: Setup) -> frozenset[str]:
    known = set()
    for printed in setup.backends:
        name = printed.strip().lower()
        if name not in BACKENDS:
            raise _Mismatch("unsupported-backend", f"Plans are not made for the backend {printed[:40]}.")
        known.add(BACKENDS[name])
    return frozenset(name for name in known if name is not None)


def _seen(setup: Setup, gpus: GpuCatalog, named: Sequence[str]) -> Sequence[tuple[str, bool]]:
    """Slug of every device that the program saw, and whether it is reached over a network."""
    printed = setup.gpus
    stated = [slug for text in named for slug in _slugs(text, gpus)]
    if not printed:
        if not stated:
            raise _Mismatch("unknown-gpu", "Nothing says which cards were measured: name them.")
        return [(slug, False) for slug in stated]
    if stated and len(stated) != len(printed):
        raise _Mismatch(
            "rig-contradicted", f"{len(stated)} cards were named, but the program saw {len(printed)}: {printed}."
        )
    return [
        (_slug(name, stated[index] if stated else None, gpus), bool(_ADDRESS.fullmatch(name)))
        for index, name in enumerate(printed)
    ]


def _slugs(text: str, gpus: GpuCatalog) -> Sequence[str]:
    count, name = parse_count(text)
    return [gpus.names.resolve(name).record.slug] * count


def _slug(printed: str, stated: str | None, gpus: GpuCatalog) -> str:
    """The card of a driver's name, which must not be another than the one stated."""
    if _ADDRESS.fullmatch(printed):
        if stated is None:
            raise _Mismatch("unknown-gpu", f"{printed[:80]} is a server: name the card behind it.")
        return stated
    try:
        slug = gpus.names.resolve(printed).record.slug
    except PlanProblem as refused:
        if stated is not None and (not refused.suggestions or stated in refused.suggestions):
            return stated
        if stated is not None:
            raise _Mismatch("rig-contradicted", f"{stated} was named, but {refused.detail}.") from None
        raise _Mismatch("unknown-gpu", f"{refused.detail}.", tuple(refused.suggestions)) from None
    if stated is not None and stated != slug:
        raise _Mismatch("rig-contradicted", f"{stated} was named, but the program saw {printed[:80]} ({slug}).")
    return slug


def _chosen(seen: Sequence[tuple[str, bool]], setup: Setup) -> Sequence[tuple[str, bool]]:
    """The devices that were used: those named by -dev, or with split mode none the main one."""
    if setup.flags.devices:
        found = [_DEVICE.fullmatch(name) for name in setup.flags.devices]
        numbers = [int(match[2]) for match in found if match is not None]
        if len(numbers) < len(found) or any(number >= len(seen) for number in numbers):
            raise _Mismatch(
                "unknown-gpu", f"The devices {'/'.join(setup.flags.devices)[:80]} are not among those seen."
            )
        seen = [seen[number] for number in numbers]
    if setup.flags.split_mode == "none":
        main = setup.flags.main_gpu or 0
        if not 0 <= main < len(seen):
            raise _Mismatch("unknown-gpu", f"The main device {main} is not among the {len(seen)} seen.")
        return [seen[main]]
    return seen


def _backend(slug: str, is_address: bool, backends: frozenset[str], gpus: GpuCatalog) -> str | None:
    """The backend that drove a card: of those in the build the one that can; builds for ROCm once called it CUDA."""
    if is_address:
        return "rpc"
    vendor = vendors()[gpus.names.records[slug].vendor]
    possible = [backend for backend in vendor.backends if backend in backends - {"rpc", "cpu"}]
    if len(possible) > 1:
        raise _Mismatch("ambiguous-backend", f"{slug} could have been driven by {' or '.join(possible)}.")
    if possible:
        return possible[0]
    if not backends - {"cpu"} or (backends == {"cuda"} and "rocm" in vendor.backends):
        return vendor.default_backend
    raise _Mismatch("unsupported-backend", f"{slug} is not driven by {' or '.join(sorted(backends))}.")
