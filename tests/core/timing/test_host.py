"""What a processor's cores cost beside its memory."""

from math import hypot

import pytest

from service.core.tensor_types import TENSOR_TYPE_BY_NAME
from service.core.timing.constants import CALIBRATION
from service.core.timing.decode import decode
from service.core.timing.host import cost, prompt_factor
from service.core.timing.prefill import prefill_s
from service.core.timing.work import Weights, Work
from service.core.types import Host
from tests.core.timing.machines import PLAIN, part, rates, work

CPU = CALIBRATION.backends["cpu"]
QUICK = Host(ram_bandwidth_bytes_per_s=800e9)


def on_host(name: str = "q4_K", threads: int | None = None) -> Work:
    """10 GB of weights of one type on the host alone."""
    weights = Weights(dense_flops_per_byte=4.0, type_fractions=((TENSOR_TYPE_BY_NAME[name], 1.0),))
    return work(host=part(None), weights=weights, threads=threads, prompt_tokens=512)


def decode_s(asked: Work, host: Host = QUICK) -> float:
    """Time of one step."""
    step = decode(asked, rates(asked, host=host), PLAIN)
    assert step is not None
    return step.step_s


def test_memory_and_cores_overlap() -> None:
    """Two weights a byte at what a core does in a second, beside reading them."""
    reading_s = 1e10 / (800e9 * CPU.bandwidth_fraction)
    computing_s = 2e10 / (CPU.core_weights_per_s * 2)
    assert decode_s(on_host(threads=2)) == pytest.approx(hypot(reading_s, computing_s), rel=0.01)


def test_few_cores_do_not_reach_what_memory_brings() -> None:
    """Two threads are slower than sixteen, the more the quicker the memory."""
    few, many = on_host(threads=2), on_host(threads=16)
    gain = decode_s(few) / decode_s(many)
    assert gain > 2
    assert gain > decode_s(few, Host(ram_bandwidth_bytes_per_s=80e9)) / decode_s(many, Host()) > 1


@pytest.mark.parametrize(("name", "factor"), [("iq2_xs", CPU.codebook_factor), ("q4_0", CPU.repacked_factor)])
def test_types_that_cores_take_longer_or_shorter_for(name: str, factor: float) -> None:
    """A codebook is looked up value by value; rows laid out together are multiplied together."""
    assert cost(on_host(name), CPU) == pytest.approx(factor)
    assert cost(on_host("q6_K"), CPU) == 1.0
    assert (prefill_s(on_host(name), rates(on_host(name))) or 0) / (
        prefill_s(on_host(), rates(on_host())) or 1
    ) == pytest.approx(factor, rel=0.05)


def test_cards_have_no_such_cores() -> None:
    """What a card reads costs it nothing besides, whatever the type."""
    asked = work(part(), weights=on_host("iq2_xs").weights)
    assert prompt_factor(asked, rates(asked).cards[0]) == 1.0
    assert cost(work(part()), CPU) == 1.0
