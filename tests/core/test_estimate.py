"""Ranges around a quantity."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.estimate import Estimate


@given(st.floats(1e-6, 1e6), st.floats(0, 3))
def test_ranges_surround_the_middle(mid: float, width: float) -> None:
    """A range reaches as far down as up in proportion."""
    estimate = Estimate.around(mid, width)
    assert estimate.low <= estimate.mid <= estimate.high
    assert estimate.low * estimate.high == pytest.approx(mid * mid)
