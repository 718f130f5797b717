"""How wide ranges are, and why."""

from dataclasses import replace

from service.core.timing.constants import RANGES
from service.core.timing.ranges import width
from tests.core.timing.machines import AMPERE, part, rates, work


def test_a_card_that_was_measured_has_the_range_of_its_group() -> None:
    """An Ampere card under CUDA is as wide as what was held out."""
    asked = work(part())
    found = width(asked, rates(asked), "decode")
    assert found.fraction == RANGES["cuda.serial.decode"].width_fraction
    assert found.n == RANGES["cuda.serial.decode"].n


def test_less_known_is_wider() -> None:
    """A generation hardly measured is less sure, one that is not known at all still less."""
    capabilities = ((8, 6), (6, 1), None)
    asked = [work(part(replace(AMPERE, compute_capability=each))) for each in capabilities]
    widths = [width(each, rates(each), "decode").fraction for each in asked]
    assert widths == sorted(widths)
    assert widths[0] < widths[1] < widths[2]


def test_an_arrangement_that_was_not_measured_is_wider() -> None:
    """Metal has no measured tensor split: its range is that of one card, widened."""
    cards = [part(replace(AMPERE, backend="metal", generation="Apple M2 GPU"))] * 2
    serial, tensor = (work(*cards, arrangement=arrangement) for arrangement in ("serial", "tensor"))
    assert width(tensor, rates(tensor), "decode").fraction > width(serial, rates(serial), "decode").fraction


def test_the_least_sure_card_decides() -> None:
    """A rig is as unsure as its least known card, and as its host where that works."""
    known, mixed = work(part(), part()), work(part(), part(replace(AMPERE, backend="sycl", generation="Xe2-HPG")))
    assert width(mixed, rates(mixed), "decode").fraction > width(known, rates(known), "decode").fraction
    offloaded = work(part(), host=part(None))
    assert width(offloaded, rates(offloaded), "decode").group == "cpu.serial.decode"
