"""Which cards are used, in which order."""

import pytest

from service.core.engines.llamacpp.devices import chosen_devices, engine_devices, listed_devices, usable_devices
from service.core.problems import Contradiction
from service.core.types import Rig
from tests.rigs import gpu, rig


def names(given: Rig) -> list[str]:
    """Cards in llama.cpp's order."""
    return [device.name for device in engine_devices(given)]


def test_servers_come_first_and_backends_in_the_order_they_register() -> None:
    """RPC before local cards, CUDA before ROCm before Metal before SYCL before Vulkan, as given within one."""
    given = rig(gpu("vulkan"), gpu("sycl"), gpu("cuda"), gpu("rpc"), gpu("rocm"), gpu("cuda"), gpu("metal"))
    assert names(given) == ["RPC0", "CUDA0", "CUDA1", "ROCm0", "MTL0", "SYCL0", "Vulkan0"]
    assert [device.position for device in engine_devices(given)] == [3, 2, 5, 4, 6, 1, 0]


def test_integrated_cards_are_used_only_without_a_local_discrete_one() -> None:
    """An integrated GPU is left out beside a card, and used beside a server alone."""
    integrated = gpu("vulkan", integrated=True)
    beside_card = usable_devices(engine_devices(rig(integrated, gpu("cuda"))), "layer")
    assert [device.name for device in beside_card] == ["CUDA0"]
    beside_server = usable_devices(engine_devices(rig(integrated, gpu("rpc"))), "layer")
    assert [device.name for device in beside_server] == ["RPC0", "Vulkan0"]


def test_integrated_cards_of_a_second_backend_are_left_out() -> None:
    """The same chip through two backends counts once; the first backend's devices all count."""
    chips = rig(gpu("cuda", integrated=True), gpu("cuda", integrated=True), gpu("vulkan", integrated=True))
    assert [device.name for device in usable_devices(engine_devices(chips), "layer")] == ["CUDA0", "CUDA1"]


def test_split_mode_tensor_takes_every_card() -> None:
    """No filter applies to a joint device."""
    given = engine_devices(rig(gpu("cuda"), gpu("vulkan", integrated=True)))
    assert len(usable_devices(given, "tensor")) == 2


def test_metal_reports_no_integrated_card() -> None:
    """A Mac's GPU is a card to llama.cpp although its chip is one with the host's."""
    assert not engine_devices(rig(gpu("metal", integrated=True)))[0].is_integrated


def test_split_mode_none_keeps_the_main_card() -> None:
    """main_gpu counts among the usable cards; -1 is the host alone; other modes ignore it."""
    usable = usable_devices(engine_devices(rig(gpu(), gpu("cuda", 12))), "none")
    assert [device.position for device in chosen_devices(usable, "none", 1)] == [1]
    assert chosen_devices(usable, "none", -1) == ()
    assert len(chosen_devices(usable, "layer", 7)) == 2


def test_a_main_card_that_is_not_there_is_refused() -> None:
    """An index beyond the cards says which there are."""
    usable = usable_devices(engine_devices(rig(gpu(), gpu())), "none")
    with pytest.raises(Contradiction, match="give 0 to 1"):
        chosen_devices(usable, "none", 2)


def test_the_host_is_no_card() -> None:
    """A card with backend cpu is refused, with the way out."""
    with pytest.raises(Contradiction, match=r"leave it out of rig\.gpus"):
        engine_devices(rig(gpu("cpu")))


def test_listed_cards_are_used_in_the_order_they_are_listed() -> None:
    """By position in the rig or by llama.cpp's name, integrated ones as well."""
    given = engine_devices(rig(gpu("vulkan", integrated=True), gpu("cuda"), gpu("cuda")))
    assert [device.position for device in listed_devices(given, (2, "Vulkan0", "cuda0"))] == [2, 0, 1]


@pytest.mark.parametrize("listed", [(3,), ("CUDA3",), (1, "CUDA0")])
def test_a_list_of_cards_that_are_not_there_is_refused(listed: tuple[int | str, ...]) -> None:
    """A card that is missing, or named twice, is named with those there are."""
    with pytest.raises(Contradiction, match="devices names"):
        listed_devices(engine_devices(rig(gpu("vulkan"), gpu("cuda"))), listed)
