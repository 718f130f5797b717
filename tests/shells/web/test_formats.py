"""Quantities as people read them."""

import pytest

from service.shells.web.formats import duration, gib, number, rate, scaled, whole


@pytest.mark.parametrize(
    ("value", "text"),
    [(134.96, "135"), (17.39, "17.4"), (2.0509, "2.05"), (0.0123, "0.0123"), (18345.0, "18,345"), (0, "0")],
)
def test_rates_have_three_digits(value: float, text: str) -> None:
    """As many digits as mean something."""
    assert rate(value) == text


def test_units_suit_the_quantity() -> None:
    """Short times are milliseconds, memory is GiB, a lack has a minus sign."""
    assert duration(0.0203) == "20.3 ms"
    assert duration(2.0509) == "2.05 s"
    assert gib(24 * 1024**3) == "24.00"
    assert gib(-(1024**3)) == "\N{MINUS SIGN}1.00"
    assert whole(131072) == "131,072"


@pytest.mark.parametrize(
    ("text", "factor", "shown"),
    [
        ("68719476736", 1024**3, "64"),
        ("936200000000.0", 1e9, "936.2"),
        ("many", 1e9, "many"),
        ("0.00074", 1e-3, "0.74"),
    ],
)
def test_fields_show_the_unit_that_people_state(text: str, factor: float, shown: str) -> None:
    """Bytes become GiB, and what is no number stays for the contract to refuse."""
    assert scaled(text, factor) == shown


def test_whole_numbers_have_no_point() -> None:
    """1000.0 is written 1000."""
    assert (number(1000.0), number(0.5)) == ("1000", "0.5")
