"""How long it takes to add up something over all cards: latency by path and number of cards, plus the bytes.

Source: domain notes on interconnect, section 3: t = alpha(n, link) + 2 (n - 1) / n * bytes / (share * link).
"""

from dataclasses import dataclass
from math import ceil, log2
from typing import Final, Literal, TypeAlias

from service.core.estimate import Estimate
from service.core.links.rates import PATHS, PathKind
from service.core.links.topology import Path

Implementation: TypeAlias = Literal["nccl", "custom", "internal", "butterfly"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Alpha:
    """Latency of a small reduction over some number of cards, with the range of what was measured."""

    low_s: float
    mid_s: float
    high_s: float


def _us(low: float, mid: float, high: float) -> Alpha:
    return Alpha(low_s=low * 1e-6, mid_s=mid * 1e-6, high_s=high * 1e-6)


# By path and number of cards, for a reduction of NCCL's class in a CUDA graph, up to 32 KiB. Middles are those of the
# domain notes, ranges reach to their farthest measured row: 3.5 us on 4 H800 (nccl#1984), 10.3 us on 2 A100 (nccl#583),
# 13.6 us on 4 cards over PCI Express (flashinfer#5023), 11.3 us on 2 RTX 4090 through the host (tinygrad#17).
_NCCL: Final[dict[PathKind, dict[int, Alpha]]] = {
    "nvlink": {2: _us(6, 8, 10.3), 4: _us(3.5, 9.5, 12), 8: _us(9, 12, 15)},
    "pcie-p2p": {2: _us(8, 10, 12), 4: _us(13.6, 18, 22), 8: _us(25, 32, 40)},
    "host-staged": {2: _us(11.3, 16, 20), 4: _us(20, 27, 35), 8: _us(40, 50, 60)},
}
# One-shot kernels, each card pushing all of its own to all others: 4.0 us on 4 V100 behind a switch
# (sglang-V100#2), 17.1 us on 8 (1Cat-vLLM#170), 4.1 and 5.2 us on 2 and 4 (flashinfer#5023).
_CUSTOM: Final[dict[int, Alpha]] = {2: _us(4, 4.5, 5), 4: _us(3, 6, 7), 8: _us(10, 15, 20)}

# Small messages go in packets that are half flags (NCCL's LL protocol), so their bytes take up to twice as long; large
# one-shot pushes were seen at 0.7 of the link. Source: 128 and 384 KB rows of sglang-V100#2.
_SLOWEST_BYTES_FACTOR: Final = {"nccl": 2.0, "custom": 1.4, "internal": 2.0, "butterfly": 2.0}


def implementation_of(n_gpus: int, *, nccl: bool | None = None) -> Implementation:
    """What llama.cpp reduces with.

    nccl: whether it was built with NCCL, which it then uses on Linux; without it its own kernel serves exactly two
    cards, and more meet pair by pair. None, where nobody knows: its own kernel for two, NCCL for more.
    Source: ggml/src/ggml-cuda/ggml-cuda.cu:1140-1245, GGML_CUDA_ALLREDUCE (llama.cpp in llama-cpp-python 0.3.36).
    """
    if nccl or (nccl is None and n_gpus > 2):
        return "nccl"
    return "internal" if n_gpus == 2 else "butterfly"


def sent_bytes(elements: int, n_gpus: int, implementation: Implementation) -> int:
    """Payload of a reduction of `elements` F32 values: NCCL compresses large ones to BF16, the own kernel all.

    Source: ggml/src/ggml-cuda/ggml-cuda.cu:1014-1018, ggml/src/ggml-cuda/allreduce.cu:432 (llama.cpp in
    llama-cpp-python 0.3.36).
    """
    small = {2: 32768, 3: 131072}.get(n_gpus, 262144)
    compressed = implementation == "internal" or (implementation == "nccl" and elements >= small)
    return elements * (2 if compressed else 4)


def all_reduce(
    path: Path, n_gpus: int, payload_bytes: float, implementation: Implementation = "nccl"
) -> Estimate | None:  # fmt: skip
    """Time of one reduction of `payload_bytes` over `n_gpus` cards in seconds; None where a rate is not known.

    path: the slowest between any two of the cards. The time is the link's alone: what an engine adds for launching
    kernels and waiting for the slowest card is not in it (llama.cpp's whole meetings were seen at 35 to 70 us).
    The range reaches from the least to the greatest of what was measured on such a path: about 0.7 to 1.4 times the
    middle for small payloads, up to twice the bytes' time for large ones.
    """
    if n_gpus < 2:
        return Estimate(low=0.0, mid=0.0, high=0.0)
    if path.link_bytes_per_s is None or path.kind == "network":
        return None
    rates, alpha = PATHS[path.kind], alpha_of(path.kind, n_gpus, implementation)
    crossing = crossings(n_gpus, implementation) * payload_bytes / path.link_bytes_per_s
    return Estimate(
        low=alpha.low_s + crossing / rates.high_fraction,
        mid=alpha.mid_s + crossing / rates.mid_fraction,
        high=alpha.high_s + _SLOWEST_BYTES_FACTOR[implementation] * crossing / rates.low_fraction,
    )


def crossings(n_gpus: int, implementation: Implementation) -> float:
    """How often the payload crosses a card's link: a ring twice less a share, one-shot once for each other card."""
    if implementation in ("custom", "internal"):
        return float(n_gpus - 1)
    if implementation == "butterfly":
        return float(ceil(log2(n_gpus)))
    return 2 * (n_gpus - 1) / n_gpus


def alpha_of(kind: PathKind, n_gpus: int, implementation: Implementation) -> Alpha:
    """Latency for any number of cards: between rows on straight lines; a butterfly meets in pairs, round by round.

    Beyond 8 cards the least stays, as trees grow with the logarithm, and the greatest goes on rising as it did:
    16 cards over PCI Express were measured at 36.1 us, 18.2 us with a one-shot kernel (b12x#139).
    """
    if implementation == "butterfly":
        pair, rounds = _NCCL[kind][2], ceil(log2(n_gpus))
        return Alpha(low_s=rounds * pair.low_s, mid_s=rounds * pair.mid_s, high_s=rounds * pair.high_s)
    # a one-shot kernel needs peer access; through the host there is none
    rows = _CUSTOM if implementation == "custom" and kind == "pcie-p2p" else _NCCL[kind]
    if n_gpus in rows:
        return rows[n_gpus]
    if n_gpus > 8:
        doublings = log2(n_gpus / 8)
        top, below = rows[8], rows[4]
        return Alpha(
            low_s=top.low_s,
            mid_s=top.mid_s + doublings * (top.mid_s - below.mid_s) / 2,
            high_s=top.high_s + doublings * (top.high_s - below.high_s),
        )
    low, high = (2, 4) if n_gpus < 4 else (4, 8)
    return _between(rows[low], rows[high], (n_gpus - low) / (high - low))


def _between(low: Alpha, high: Alpha, share: float) -> Alpha:
    return Alpha(
        low_s=low.low_s + share * (high.low_s - low.low_s),
        mid_s=low.mid_s + share * (high.mid_s - low.mid_s),
        high_s=low.high_s + share * (high.high_s - low.high_s),
    )
