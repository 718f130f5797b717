"""Reductions over cards, compared with what was measured."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.links.all_reduce import Implementation, all_reduce, implementation_of, sent_bytes
from service.core.links.pcie import hidden_state_bytes, pcie_bytes_per_s
from service.core.links.rates import PATHS, PathKind
from service.core.links.topology import Path

KB = 1024
GEN3, GEN4, GEN5 = (pcie_bytes_per_s(generation, 16) for generation in (3, 4, 5))
# domain notes on interconnect, section 3: path, cards, bytes, implementation, measured microseconds, whose
MEASURED = [
    ("nvlink", 300e9, 2, 32, "nccl", 10.1, "2x A100-SXM4, nccl#583"),
    ("nvlink", 300e9, 2, 128, "nccl", 10.3, "2x A100-SXM4, nccl#583"),
    ("nvlink", 450e9, 2, 64 * KB, "nccl", 6.0, "2x H100 NVLS, nccl#1259"),
    ("nvlink", 200e9, 4, KB, "nccl", 3.5, "4x H800, nccl#1984"),
    ("pcie-p2p", GEN3, 4, 4 * KB, "nccl", 19.4, "4x V100 behind a switch, sglang-V100#2"),
    ("pcie-p2p", GEN3, 4, 16 * KB, "nccl", 22.3, "sglang-V100#2"),
    ("pcie-p2p", GEN3, 4, 32 * KB, "nccl", 24.2, "sglang-V100#2"),
    ("pcie-p2p", GEN3, 4, 128 * KB, "nccl", 51.8, "sglang-V100#2"),
    ("pcie-p2p", GEN3, 4, 384 * KB, "nccl", 83.5, "sglang-V100#2"),
    ("pcie-p2p", GEN3, 4, 4 * KB, "custom", 4.0, "sglang-V100#2, one-shot push"),
    ("pcie-p2p", GEN3, 4, 16 * KB, "custom", 7.2, "sglang-V100#2, one-shot push"),
    ("pcie-p2p", GEN3, 4, 32 * KB, "custom", 11.8, "sglang-V100#2, one-shot push"),
    ("pcie-p2p", GEN3, 4, 128 * KB, "custom", 44.5, "sglang-V100#2, one-shot push"),
    ("pcie-p2p", GEN3, 4, 384 * KB, "custom", 120.0, "sglang-V100#2, one-shot push"),
    ("pcie-p2p", GEN3, 8, 8 * KB, "nccl", 39.4, "8x V100 in two cliques, 1Cat-vLLM#170"),
    ("pcie-p2p", GEN3, 8, 8 * KB, "custom", 17.1, "8x V100, isolated, 1Cat-vLLM#170"),
    ("host-staged", GEN4, 8, 8, "nccl", 42.0, "8x RTX 4090, nccl#1530"),
    ("host-staged", GEN4, 2, 8, "nccl", 11.3, "2x RTX 4090, all-to-all, tinygrad#17"),
    ("host-staged", GEN4, 2, 8, "nccl", 11.9, "2x RTX 4090, all-to-all, tinygrad#17"),
    ("pcie-p2p", GEN5, 16, 14 * KB, "nccl", 36.1, "16x RTX PRO 6000, b12x#139"),
    ("pcie-p2p", GEN5, 16, 14 * KB, "custom", 18.2, "16x RTX PRO 6000, hierarchical, b12x#139"),
    ("pcie-p2p", GEN5, 2, 8 * KB, "nccl", 8.3, "TP2, flashinfer#5023"),
    ("pcie-p2p", GEN5, 4, 8 * KB, "nccl", 13.6, "TP4, flashinfer#5023"),
    ("pcie-p2p", GEN5, 2, 8 * KB, "custom", 4.1, "TP2, IPC, flashinfer#5023"),
    ("pcie-p2p", GEN5, 4, 8 * KB, "custom", 5.2, "TP4, IPC, flashinfer#5023"),
]
# clocks and link rates of the measured machines are not all known
READING_ERROR = 0.03


def path(kind: PathKind, link_bytes_per_s: float) -> Path:
    rates = PATHS[kind]
    return Path(
        kind=kind,
        link_bytes_per_s=link_bytes_per_s,
        bandwidth_bytes_per_s=rates.mid_fraction * link_bytes_per_s,
        latency_s=rates.mid_latency_s,
    )


@pytest.mark.parametrize(
    ("kind", "link", "n_gpus", "payload", "implementation", "measured_us", "source"),
    MEASURED,
    ids=[f"{row[-1]} {row[3]} B" for row in MEASURED],
)
def test_measured_reductions_lie_within_the_stated_spread(
    kind: PathKind,
    link: float,
    n_gpus: int,
    payload: int,
    implementation: Implementation,
    measured_us: float,
    source: str,
) -> None:
    """What others measured on a path lies between the least and the most that is predicted for it."""
    time = all_reduce(path(kind, link), n_gpus, payload, implementation)
    assert time is not None, source
    assert time.low * (1 - READING_ERROR) <= measured_us * 1e-6 <= time.high * (1 + READING_ERROR), source


def test_tensor_split_of_llama_70b_sends_two_and_a_half_mebibytes() -> None:
    """160 meetings of 16 KiB in 16 bits take 83 us at 4.0 x16 and 333 us at x4, beside 160 latencies."""
    payload = 160 * hidden_state_bytes(8192) // 2
    assert payload == 2.5 * 2**20
    assert payload / GEN4 * 1e6 == pytest.approx(83, abs=0.5)
    assert payload / pcie_bytes_per_s(4, 4) * 1e6 == pytest.approx(333, abs=0.5)


def test_large_machines_reach_nearly_their_bandwidth() -> None:
    """A gigabyte over the bridge of two H100 PCIe takes about as long as at the 115 GB/s that were measured."""
    time = all_reduce(path("nvlink", 150e9), 2, 2**30)
    assert time is not None
    assert 2**30 / time.mid == pytest.approx(115.5e9, rel=0.1)


@pytest.mark.parametrize(
    ("n_gpus", "nccl", "implementation"),
    [(2, None, "internal"), (3, None, "nccl"), (2, True, "nccl"), (2, False, "internal"), (4, False, "butterfly")],
)
def test_llama_cpp_reduces_by_what_it_was_built_with(
    n_gpus: int, nccl: bool | None, implementation: Implementation
) -> None:
    """Its own kernel serves exactly two cards; more need NCCL or meet pair by pair."""
    assert implementation_of(n_gpus, nccl=nccl) == implementation


@pytest.mark.parametrize(
    ("elements", "n_gpus", "implementation", "expected_bytes"),
    [
        (8192, 2, "internal", 16384), (8192, 2, "nccl", 32768), (32768, 2, "nccl", 65536),
        (131071, 3, "nccl", 524284), (131072, 3, "nccl", 262144), (262144, 8, "nccl", 524288),
        (512 * 8192, 4, "butterfly", 16777216),
    ],
)  # fmt: skip
def test_large_reductions_are_compressed(
    elements: int, n_gpus: int, implementation: Implementation, expected_bytes: int
) -> None:
    """NCCL sends large tensors in 16 bits, llama.cpp's own kernel all of them, pairs none."""
    assert sent_bytes(elements, n_gpus, implementation) == expected_bytes


KINDS = st.sampled_from(["nvlink", "pcie-p2p", "host-staged"])
IMPLEMENTATIONS = st.sampled_from(["nccl", "custom", "internal", "butterfly"])


@given(KINDS, st.integers(2, 15), st.integers(1, 10**8), IMPLEMENTATIONS)
def test_more_cards_or_bytes_never_take_less(
    kind: PathKind, n_gpus: int, payload: int, implementation: Implementation
) -> None:
    """The middle grows with the cards and with the bytes, and lies within its range."""
    times = [
        all_reduce(path(kind, GEN4), n, size, implementation)
        for n, size in ((n_gpus, payload), (n_gpus + 1, payload), (n_gpus, 2 * payload))
    ]
    own, more_cards, more_bytes = [time for time in times if time is not None]
    assert own.low <= own.mid <= own.high
    assert own.mid <= more_cards.mid
    assert own.mid <= more_bytes.mid


def test_an_unknown_network_gives_no_time() -> None:
    """Where nobody knows the rate there is no figure; one card has nothing to add up."""
    network = Path(kind="network", link_bytes_per_s=None, bandwidth_bytes_per_s=None, latency_s=None)
    assert all_reduce(network, 2, 1000) is None
    alone = all_reduce(network, 1, 1000)
    assert alone is not None
    assert alone.high == 0
