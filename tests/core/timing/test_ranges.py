"""How wide ranges are, and why."""

from dataclasses import replace

from service.core.timing.constants import RANGES
from service.core.timing.figures import Range
from service.core.timing.ranges import width
from tests.core.timing.machines import AMPERE, part, rates, work


def test_a_card_that_was_measured_has_the_range_of_its_group() -> None:
    """An Ampere card under CUDA is as wide as what was held out."""
    asked = work(part())
    found = width(asked, rates(asked), "decode")
    assert found.fraction == RANGES["cuda.one.decode"].width_fraction
    assert found.n == RANGES["cuda.one.decode"].n


def test_a_split_has_a_range_of_its_own_where_it_was_measured_on_several_cards() -> None:
    """Two cards one after the other are better known than one under CUDA; elsewhere both have one range."""
    pair = work(part(), part())
    assert width(pair, rates(pair), "decode").group == "cuda.layer.decode"
    arcs = work(*[part(replace(AMPERE, backend="sycl", generation="Xe2-HPG"))] * 2)
    assert width(arcs, rates(arcs), "decode").group == "sycl.serial.decode"


def test_unfamiliar_cards_are_wider_as_far_as_the_range_is_of_familiar_ones() -> None:
    """Where the range comes from generations that were new to the constants, one more new one is no surprise."""
    asked = work(part(replace(AMPERE, compute_capability=(6, 1))))
    found = [
        width(asked, rates(asked), "decode", {"cuda.one.decode": Range(0.1, 50, 0.85, familiar)}).fraction
        for familiar in (0.0, 1.0)
    ]
    assert found[0] == 0.1
    assert found[1] > 0.13


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
