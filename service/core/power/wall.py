"""From the supply to the wall: losses and circuits.

Source: domain notes on power, section 5; the figures and who measured them are in hardware_db/power.toml.
"""

from collections.abc import Sequence
from typing import Final

# continuous loads, of three hours and more, may use this share of a breaker (NEC 210.20(A), in domain notes section 5)
CONTINUOUS_FRACTION: Final = 0.80
BTU_PER_H_PER_W: Final = 3.412


def efficiency(curve: Sequence[tuple[float, float]], load_fraction: float) -> float:
    """Share of the wall's power that arrives, on straight lines between the curve's rows, flat beyond its ends."""
    (low, at_low), *rest = curve
    if load_fraction <= low:
        return at_low
    for high, at_high in rest:
        if load_fraction <= high:
            return at_low + (at_high - at_low) * (load_fraction - low) / (high - low)
        low, at_low = high, at_high
    return at_low


def wall_w(dc_w: float, rated_w: float, curve: Sequence[tuple[float, float]]) -> float:
    """What the wall gives for a load behind supplies of `rated_w` together."""
    return dc_w / efficiency(curve, dc_w / rated_w) if dc_w else 0.0


def circuit_w(volts: float, amps: float) -> float:
    """What the breaker of a circuit bears: 15 A at 120 V are 1800 W."""
    return volts * amps


def continuous_w(volts: float, amps: float) -> float:
    """What a circuit bears for hours: 15 A at 120 V are 1440 W, 20 A 1920 W; 20 A at 240 V 3840 W."""
    return CONTINUOUS_FRACTION * circuit_w(volts, amps)


def heat_btu_per_h(watts: float) -> float:
    """Heat that a room takes up, in the unit of air conditioners."""
    return BTU_PER_H_PER_W * watts
