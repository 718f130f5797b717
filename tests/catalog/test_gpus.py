"""Cards of a request become devices: counted, sized, driven by a backend, changed as the request says."""

from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.catalog.gpu_records import iter_gpu_records
from service.catalog.gpus import GpuOptions, InlineGpu, builtin_gpus, inline_gpu
from service.core.problems import Contradiction, InvalidRequest, UnknownGpu
from service.core.types import Backend, Gpu, Host
from service.core.units import GIB, MIB

CATALOG = builtin_gpus()
SLUGS = sorted(record.slug for record in iter_gpu_records())
MACHINE = Host(ram_bytes=64 * GIB, ram_bandwidth_bytes_per_s=80e9)


def one(text: str, options: GpuOptions | None = None, host: Host | None = None) -> Gpu:
    (gpu,) = CATALOG.gpus(text, options, host)
    return gpu


def test_a_card_is_planned_with_its_own_figures() -> None:
    """An RTX 3090 has its bandwidth, its link, and what is free on it when idle."""
    gpu = one("3090")
    assert (gpu.slug, gpu.backend, gpu.generation, gpu.compute_capability) == ("rtx-3090", "cuda", "Ampere", (8, 6))
    assert (gpu.bandwidth_bytes_per_s, gpu.tdp_w, gpu.pcie_gen, gpu.pcie_lanes) == (936.2e9, 350, 4, 16)
    assert (gpu.total_bytes, gpu.usable_bytes) == (24124 * MIB, 23858 * MIB)
    assert "hardware" in gpu.usable_basis or "llama.cpp" in gpu.usable_basis
    assert not gpu.unified_memory
    assert not gpu.integrated


def test_a_count_repeats_the_same_card() -> None:
    """Three cards are three equal devices."""
    assert CATALOG.gpus("3x rtx-4090") == (one("rtx-4090"),) * 3


@pytest.mark.parametrize(
    ("slug", "backend"),
    [("rtx-3090", "cuda"), ("rx-7900-xtx", "rocm"), ("apple-m2-ultra-76", "metal"), ("arc-b580", "sycl")],
)
def test_a_vendor_has_its_own_backend(slug: str, backend: Backend) -> None:
    """Without a stated backend the vendor's own drives the card."""
    assert one(slug).backend == backend


def test_a_backend_can_be_chosen() -> None:
    """An NVIDIA card through Vulkan has Vulkan's memory figures; Metal cannot drive it."""
    vulkan = one("rtx-3090", GpuOptions(backend="vulkan"))
    assert vulkan.backend == "vulkan"
    assert vulkan.usable_bytes == 23523 * MIB
    with pytest.raises(Contradiction, match="cuda, vulkan"):
        one("rtx-3090", GpuOptions(backend="metal"))


def test_free_memory_is_taken_as_stated() -> None:
    """free_bytes is neither reduced nor rounded, and more than the card has is a contradiction."""
    gpu = one("rtx-3090", GpuOptions(free_bytes=20_000_000_001))
    assert gpu.usable_bytes == 20_000_000_001
    assert "stated" in gpu.usable_basis
    with pytest.raises(Contradiction, match="cannot be free"):
        one("rtx-3090", GpuOptions(free_bytes=25 * GIB))


def test_a_slot_can_slow_a_card_but_not_speed_it_up() -> None:
    """The link is as fast as the slower of card and slot."""
    assert one("rtx-3090", GpuOptions(pcie_gen=3, pcie_lanes=4)).pcie_gen == 3
    assert one("rtx-3090", GpuOptions(pcie_gen=5, pcie_lanes=16)).pcie_gen == 4
    assert one("rtx-4060", GpuOptions(pcie_lanes=16)).pcie_lanes == 8
    with pytest.raises(Contradiction, match="no PCI Express slot"):
        one("apple-m1", GpuOptions(pcie_lanes=16))


def test_a_power_limit_is_kept() -> None:
    """The limit stands beside the board's own power."""
    gpu = one("rtx-3090", GpuOptions(power_limit_w=220))
    assert (gpu.power_limit_w, gpu.tdp_w) == (220, 350)


def test_a_board_with_two_devices_gives_both() -> None:
    """An MI250X is two devices with half of every figure each, as software sees it."""
    first, second = CATALOG.gpus("mi250x", GpuOptions(power_limit_w=500))
    board = CATALOG.names.records["mi250x"]
    assert board.memory_bandwidth_bytes_per_s is not None
    assert first.bandwidth_bytes_per_s == board.memory_bandwidth_bytes_per_s / 2
    assert (first.power_limit_w, first.tdp_w) == (250, 280)
    assert 63 * GIB < first.usable_bytes < 64 * GIB
    assert replace(second, name=first.name) == first
    assert len(CATALOG.gpus("4x mi250x")) == 8


@pytest.mark.parametrize(
    ("text", "ram_gib", "usable_gib"),
    [
        ("apple-m2-ultra-76", None, 144),
        ("apple-m2-ultra-76", 64, 48),
        ("M2 Ultra 76-core 64GB", None, 48),
        ("M2 Ultra 76-core 64GB", 60, 48),
        ("apple-m1", None, 16 * 2 / 3),
        ("apple-m5-max-40", 128, 107.52),
        ("ryzen-ai-max-395", 128, 96),
        ("radeon-780m", 32, 16),
        ("jetson-thor-t5000", None, 128 * 0.935 - 3460 / 1024),
        ("dgx-spark-gb10", None, 120632 / 1024),
    ],
)
def test_shared_memory_is_what_the_system_lets_the_gpu_use(text: str, ram_gib: int | None, usable_gib: float) -> None:
    """The machine's memory decides: stated, named, or the largest sold."""
    gpu = one(text, host=Host(ram_bytes=None if ram_gib is None else ram_gib * GIB))
    assert gpu.usable_bytes == pytest.approx(usable_gib * GIB, abs=1)
    assert gpu.unified_memory


def test_an_integrated_device_is_one_unless_its_backend_hides_it() -> None:
    """CUDA, ROCm and Vulkan report integrated devices as such, Metal does not."""
    assert one("dgx-spark-gb10").integrated
    assert one("ryzen-ai-max-395", GpuOptions(backend="vulkan")).integrated
    assert not one("apple-m2-ultra-76").integrated


def test_what_is_missing_is_asked_for() -> None:
    """A chip without memory of its own needs the machine's, a card of unknown size its free bytes."""
    with pytest.raises(InvalidRequest, match=r"rig\.host\.ram_bytes"):
        one("radeon-780m")
    with pytest.raises(InvalidRequest, match="free_bytes"):
        one("arc-pro-b65")
    assert one("arc-pro-b65", GpuOptions(free_bytes=31 * GIB)).usable_bytes == 31 * GIB
    with pytest.raises(Contradiction, match="sold with at most"):
        one("apple-m1", host=MACHINE)


def test_a_chip_reads_at_the_speed_of_its_memory() -> None:
    """A chip whose bandwidth depends on the machine takes the stated one, and has none without."""
    assert one("radeon-780m", host=MACHINE).bandwidth_bytes_per_s == 80e9
    assert one("radeon-780m", host=Host(ram_bytes=32 * GIB)).bandwidth_bytes_per_s is None


def test_a_card_in_no_catalogue_is_described_by_figures() -> None:
    """Figures are taken over; driver and context come off unless free_bytes is stated."""
    card = InlineGpu(
        name="lab card",
        vram_bytes=24 * GIB,
        bandwidth_bytes_per_s=936e9,
        fp16_tensor_flops=71e12,
        tdp_w=350,
        compute_capability="8.6",
    )
    gpu = inline_gpu(card, GpuOptions(pcie_gen=4, pcie_lanes=8))
    assert (gpu.slug, gpu.backend, gpu.compute_capability, gpu.pcie_lanes) == ("lab card", "cuda", (8, 6), 8)
    assert gpu.total_bytes == 24 * GIB - 461 * MIB
    assert gpu.total_bytes - gpu.usable_bytes == (510 - 461) * MIB + round(24 * GIB * 0.0075)
    assert inline_gpu(card, GpuOptions(free_bytes=GIB)).usable_bytes == GIB
    assert inline_gpu(replace(card, backend="rpc")).usable_bytes == 24 * GIB
    with pytest.raises(Contradiction, match="cannot be free"):
        inline_gpu(card, GpuOptions(free_bytes=25 * GIB))
    with pytest.raises(Contradiction, match="cpu"):
        inline_gpu(card, GpuOptions(backend="cpu"))


def test_an_unknown_card_is_refused() -> None:
    """A wrong name is a problem with suggestions, not another card."""
    with pytest.raises(UnknownGpu) as refused:
        CATALOG.gpus("2x rtx-3090-super")
    assert "rtx-3090" in refused.value.suggestions


@given(slug=st.sampled_from(SLUGS), backend=st.sampled_from(["cuda", "rocm", "vulkan", "metal", "sycl", "rpc", None]))
def test_every_card_is_planned_or_refused_with_a_reason(slug: str, backend: Backend | None) -> None:
    """A device never offers more memory than the card has, and says where the number comes from."""
    record = CATALOG.names.records[slug]
    gpus: tuple[Gpu, ...] = ()
    with suppress(Contradiction, InvalidRequest):
        gpus = CATALOG.gpus(slug, GpuOptions(backend=backend))
    assert len(gpus) in {0, record.devices_per_board}
    assert sum(gpu.total_bytes for gpu in gpus) <= (record.vram_bytes or 0)
    for gpu in gpus:
        assert 0 < gpu.usable_bytes <= gpu.total_bytes
        assert gpu.usable_basis
