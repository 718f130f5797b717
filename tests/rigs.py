"""Rigs for tests: cards by backend and size, without a catalogue."""

from typing import Any

from service.core.types import Backend, Gpu, Rig

GIB = 2**30


def gpu(backend: Backend = "cuda", gib: float = 24, **facts: Any) -> Gpu:
    """A card of `gib` GiB, all of it usable."""
    size_bytes = int(gib * GIB)
    return Gpu(
        **{
            "slug": f"{backend}-{gib}",
            "name": f"{backend} {gib} GiB",
            "backend": backend,
            "total_bytes": size_bytes,
            "usable_bytes": size_bytes,
            "usable_basis": "test",
            "bandwidth_bytes_per_s": 936e9,
            **facts,
        }
    )


def rig(*gpus: Gpu) -> Rig:
    """A rig of these cards."""
    return Rig(gpus=gpus)


def rpc_rig(n_devices: int) -> Rig:
    """The rig of the golden rows: RPC servers with equal free memory."""
    return rig(*(gpu("rpc") for _ in range(n_devices)))
