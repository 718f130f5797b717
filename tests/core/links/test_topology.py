"""Which path two cards have."""

from dataclasses import replace

import pytest

from service.catalog.gpus import GpuOptions, builtin_gpus
from service.core.links.topology import nvlink_groups, path_between, paths, peer_access, slowest_path
from service.core.links.transfers import boundary_s, load_s, tensor_sync_s
from service.core.machine import Machine
from service.core.types import Gpu, Rig
from tests.rigs import gpu


def cards(*names: str, options: GpuOptions | None = None) -> tuple[Gpu, ...]:
    return tuple(card for name in names for card in builtin_gpus().gpus(name, options))


def rig(*names: str, machine: Machine | None = None) -> Rig:
    return Rig(gpus=cards(*names), machine=machine or Machine())


@pytest.mark.parametrize(
    ("names", "machine", "kind"),
    [
        (("2x rtx-4090",), Machine(), "host-staged"),
        (("2x rtx-4090",), Machine(p2p=True), "pcie-p2p"),
        (("2x rtx-4090",), Machine(p2p=False), "host-staged"),
        (("rtx-4090", "rtx-5090"), Machine(p2p=True), "host-staged"),
        (("2x rtx-3090",), Machine(), "nvlink"),
        (("2x rtx-3090",), Machine(nvlink=()), "host-staged"),
        (("2x rtx-2080-ti",), Machine(nvlink=()), "host-staged"),
        (("2x rtx-2080-ti",), Machine(nvlink=((0, 1),)), "nvlink"),
        (("2x rtx-pro-6000-blackwell-ws",), Machine(), "pcie-p2p"),
        (("2x rtx-pro-6000-blackwell-ws",), Machine(p2p=False), "host-staged"),
        (("2x tesla-p40",), Machine(), "pcie-p2p"),
        (("8x h100-sxm5-80gb",), Machine(), "nvlink"),
        (("2x rx-7900-xtx",), Machine(), "host-staged"),
        (("2x mi210",), Machine(), "pcie-p2p"),
    ],
)
def test_a_pair_s_path_follows_the_driver_and_the_bridges(names: tuple[str, ...], machine: Machine, kind: str) -> None:
    """GeForce from Turing on reaches a peer over a bridge alone, unless a user claims a patched driver."""
    assert path_between(rig(*names, machine=machine), 0, 1).kind == kind


def test_a_claim_holds_only_between_cards_of_one_generation() -> None:
    """Patched drivers do not let unlike cards reach each other."""
    mixed = rig("2x rtx-4090", "rtx-3090", machine=Machine(p2p=True))
    assert peer_access(mixed, 0, 1)
    assert not peer_access(mixed, 0, 2)


def test_bridges_join_pairs_and_switches_all() -> None:
    """Eight cards with bridges are at best four pairs; eight behind a switch are one group."""
    assert nvlink_groups(rig("8x rtx-2080-ti")) == ((0, 1), (2, 3), (4, 5), (6, 7))
    assert nvlink_groups(rig("3x rtx-3090")) == ((0, 1),)
    assert nvlink_groups(rig("8x h100-sxm5-80gb")) == (tuple(range(8)),)
    assert nvlink_groups(rig("2x rtx-4090")) == ()
    assert nvlink_groups(rig("4x rtx-3090", machine=Machine(nvlink=((0, 2), (1, 3))))) == ((0, 2), (1, 3))
    assert nvlink_groups(rig("3x rtx-3090", machine=Machine(nvlink=((0, 1, 2),)))) == ((0, 1),)


# measured bandwidth in one direction, GB/s (domain notes on interconnect, section 1)
@pytest.mark.parametrize(
    ("names", "options", "machine", "least", "most"),
    [
        (("2x rtx-4090",), GpuOptions(pcie_gen=4, pcie_lanes=4), Machine(p2p=True), 6.6, 6.9),
        (("2x a40",), None, Machine(nvlink=()), 26, 28),
        (("2x rtx-3090",), None, Machine(nvlink=()), 20, 22),
        (("2x rtx-5090",), None, Machine(), 40, 43),
        (("2x rtx-pro-6000-blackwell-ws",), None, Machine(), 52, 58),
        (("2x h100-sxm5-80gb",), None, Machine(), 370, 380),
    ],
)
def test_paths_reach_what_was_measured(
    names: tuple[str, ...], options: GpuOptions | None, machine: Machine, least: float, most: float
) -> None:
    """The share of a link that is reached lies where measurements do."""
    rate = path_between(Rig(gpus=cards(*names, options=options), machine=machine), 0, 1).bandwidth_bytes_per_s
    assert rate is not None
    assert least <= rate / 1e9 <= most


def test_sockets_and_chipsets_narrow_a_path() -> None:
    """Peers on two sockets meet at 5 to 10 GB/s; behind a chipset there is no more than its own link."""
    first, second = cards("a40", options=GpuOptions(numa_node=0)) + cards("a40", options=GpuOptions(numa_node=1))
    across = path_between(Rig(gpus=(first, second), machine=Machine(nvlink=())), 0, 1).bandwidth_bytes_per_s
    assert across == pytest.approx(7.5e9)
    behind = cards("rtx-4090", options=GpuOptions(behind="chipset"))
    shared = path_between(Rig(gpus=behind + cards("rtx-4090")), 0, 1)
    assert shared.link_bytes_per_s == pytest.approx(7.88e9, rel=1e-3)


def test_a_reduction_waits_for_the_slowest_path() -> None:
    """Two bridged pairs are as slow together as the host between them."""
    pairs = rig("4x rtx-3090")
    assert slowest_path(pairs, (0, 1, 2, 3)) == path_between(pairs, 0, 2)
    bridged, all_four = (tensor_sync_s(pairs, group, 8192) for group in ((0, 1), (0, 1, 2, 3)))
    assert bridged is not None
    assert all_four is not None
    assert bridged.mid < all_four.mid
    assert slowest_path(pairs, (0,)) is None


def test_cards_of_another_machine_are_behind_a_network() -> None:
    """Nothing is said of a network whose rate nobody stated."""
    remote = Rig(gpus=(gpu("rpc"), gpu("rpc")))
    assert path_between(remote, 0, 1).bandwidth_bytes_per_s is None
    assert boundary_s(path_between(remote, 0, 1), 8192) is None
    assert tensor_sync_s(remote, (0, 1), 8192) is None


def test_a_riser_of_one_lane_slows_prompts_not_tokens() -> None:
    """One lane of generation 3 takes some 50 us for a token and tens of milliseconds for a ubatch."""
    riser = Rig(gpus=cards("2x rtx-3060-12gb", options=GpuOptions(pcie_gen=3, pcie_lanes=1)))
    path = path_between(riser, 0, 1)
    token_s, ubatch_s = boundary_s(path, 8192), boundary_s(path, 8192, 512)
    assert token_s is not None
    assert ubatch_s is not None
    assert 33e-6 < token_s < 100e-6
    assert ubatch_s > 16.8e6 / 0.985e9


def test_loading_goes_through_each_card_s_link() -> None:
    """Weights of 40 GB need longer through four lanes than through sixteen, and none where memory is shared."""
    wide, narrow = (cards("rtx-3090", options=GpuOptions(pcie_gen=4, pcie_lanes=lanes)) for lanes in (16, 4))
    held = [40_000_000_000]
    assert load_s(narrow, held).mid == pytest.approx(4 * load_s(wide, held).mid)
    assert load_s(wide, held).low == pytest.approx(40e9 / (31.5e9 * 0.84), rel=1e-3)
    assert load_s(cards("apple-m4-max-40"), held).high == 0
    assert load_s((replace(gpu("rpc"), pcie_gen=4),), held).high == 0


def test_a_large_rig_has_the_paths_of_a_small_one() -> None:
    """Of many equal cards a few pairs stand for all, whatever the number."""
    many, few = rig("500x l40s"), rig("3x l40s")
    assert {path for _, path in paths(many)} == {path for _, path in paths(few)}
    assert slowest_path(many, tuple(range(500))) == slowest_path(few, (0, 1, 2))
    assert len(paths(many)) < 10
