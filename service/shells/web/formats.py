"""Quantities as people read them."""

from math import floor, log10

from service.core.units import GIB

MINUS = "\N{MINUS SIGN}"


def gib(amount_bytes: float) -> str:
    """Bytes in GiB, as the command line prints them."""
    return _signed(f"{amount_bytes / GIB:,.2f}")


def whole(count: float) -> str:
    """A count with its thousands apart."""
    return _signed(f"{count:,.0f}")


def rate(value: float) -> str:
    """A rate with three digits, all of them where it has more before the point."""
    if value <= 0:
        return "0"
    decimals = max(0, 2 - floor(log10(value)))  # 9.996 becomes 10.00: a digit more than asked, never one less
    return f"{value:,.{decimals}f}"


def duration(value_s: float) -> str:
    """A time in the unit that suits it."""
    return f"{rate(value_s * 1e3)} ms" if value_s < 1 else f"{rate(value_s)} s"


def watts(value_w: float) -> str:
    """A power without its decimals."""
    return whole(value_w)


def number(value: float) -> str:
    """A number without a point where it is whole."""
    return str(int(value)) if float(value).is_integer() else str(value)


def scaled(text: str, factor: float) -> str:
    """A number of the contract's unit in units of `factor`; what is no number stays as it is."""
    try:
        return number(float(text) / factor)
    except ValueError:
        return text


def gigabytes(amount_bytes: float) -> str:
    """Bytes of a file in GB."""
    return f"{amount_bytes / 1e9:,.1f}"


def billions(count: float) -> str:
    """A number of weights in billions."""
    return rate(count / 1e9)


def _signed(text: str) -> str:
    return text.replace("-", MINUS)
