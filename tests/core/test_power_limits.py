"""What a power limit costs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.power_limits import limited_speed

# limit in watts, decode and prefill in tokens/s on six RTX 3090 (domain notes on power, section 7)
SWEEP = [
    (350, 72.6, 9893), (300, 72.1, 9326), (250, 70.7, 8436), (200, 68.3, 5941), (150, 62.6, 2549), (100, 12.1, 1390),
]  # fmt: skip


@pytest.mark.parametrize(("limit_w", "decode_tokens_per_s", "prefill_tokens_per_s"), SWEEP)
def test_a_sweep_over_limits_is_reproduced(
    limit_w: float, decode_tokens_per_s: float, prefill_tokens_per_s: float
) -> None:
    """Every measured limit keeps its measured share of decode and prefill, to a point of a percent."""
    kept = limited_speed(limit_w, 350)
    assert kept.decode_fraction == pytest.approx(decode_tokens_per_s / 72.6, abs=0.01)
    assert kept.prefill_fraction == pytest.approx(prefill_tokens_per_s / 9893, abs=0.01)


def test_other_cards_agree_on_decode() -> None:
    """280 W on an RTX 3090 and 150 W on an RTX 5060 Ti lose about one percent of decode."""
    assert limited_speed(280, 350).decode_fraction >= 0.99
    assert limited_speed(150, 180).decode_fraction == pytest.approx(80.4 / 81.2, abs=0.015)


@pytest.mark.parametrize(("limit_w", "tdp_w"), [(None, 350), (280, None), (None, None), (500, 350)])
def test_no_limit_costs_nothing(limit_w: float | None, tdp_w: float | None) -> None:
    """What is not limited, or cannot be known to be, runs at full speed."""
    kept = limited_speed(limit_w, tdp_w)
    assert (kept.decode_fraction, kept.prefill_fraction) == (1.0, 1.0)


@given(st.floats(1, 600), st.floats(1, 600))
def test_more_power_never_slows(lower_w: float, higher_w: float) -> None:
    """A higher limit gives at least the speed of a lower one, and prompts suffer at least as much as decode."""
    low, high = (limited_speed(watts, 450) for watts in sorted((lower_w, higher_w)))
    assert low.decode_fraction <= high.decode_fraction
    assert low.prefill_fraction <= high.prefill_fraction
    assert low.prefill_fraction <= low.decode_fraction + 1e-9
