"""What links reach of what they are rated for, and how long a small transfer takes; one row per kind of path.

Source: domain notes on interconnect, sections 1 and 2, whose measurements are named in each row.
"""

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

PathKind: TypeAlias = Literal["nvlink", "pcie-p2p", "host-staged", "network"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PathRates:
    """One kind of path: share of the narrowest link's rate, and latency of a small transfer, each with its range."""

    low_fraction: float
    mid_fraction: float
    high_fraction: float
    low_latency_s: float
    mid_latency_s: float
    high_latency_s: float
    source: str


PATHS: Final[dict[PathKind, PathRates]] = {
    "nvlink": PathRates(
        low_fraction=0.80, mid_fraction=0.83, high_fraction=0.85,
        low_latency_s=1.4e-6, mid_latency_s=1.8e-6, high_latency_s=2.1e-6,
        source="H100 SXM 380 of 450 GB/s (nccl#1264); no latency of its own was found: a copy within one card's",
    ),
    "pcie-p2p": PathRates(
        low_fraction=0.84, mid_fraction=0.86, high_fraction=0.89,
        low_latency_s=0.36e-6, mid_latency_s=1.4e-6, high_latency_s=2.1e-6,
        source="6.6 of 7.88 GB/s (tinygrad#44), 56 of 63 GB/s (ik_llama.cpp#1022); 0.36 us on the card, 1.4 us to "
        "issue it (aikitoria#9)",
    ),
    "host-staged": PathRates(
        low_fraction=0.39, mid_fraction=0.65, high_fraction=0.84,
        low_latency_s=12e-6, mid_latency_s=15e-6, high_latency_s=21e-6,
        source="20 to 22 of 31.5 GB/s (nccl#814), 42.5 of 63 GB/s (aikitoria#9), 6.34 of 7.88 GB/s (tinygrad#44), "
        "6.1 to 8.6 of 15.75 GB/s (nccl#1127); 12 to 21 us (nccl#1127, nccl-tests#117, aikitoria#9)",
    ),
}  # fmt: skip

# Copies between host and card: from pinned memory, and from mapped files, which are pageable.
# Source: domain notes on interconnect, section 1: 0.80 to 0.88 of the link; pageable copies about half.
PINNED_COPY_FRACTION: Final = 0.84
PAGEABLE_COPY_FRACTION: Final = 0.42

# Peer-to-peer traffic between sockets or root complexes, and what everything behind a chipset shares.
# Source: domain notes on interconnect, section 5: 5 to 10 GB/s seen (nccl-tests#307); AM5's chipset link is 4.0 x4.
ACROSS_SOCKETS_BYTES_PER_S: Final = 7.5e9
CHIPSET_PCIE: Final = (4, 4)

# Assumed where neither card nor request says.
ASSUMED_PCIE: Final = (4, 16)
