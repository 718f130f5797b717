"""Estimates of the core as the contract has them."""

from service.contract.estimate import Estimate
from service.core import estimate as core


def shown(estimate: core.Estimate) -> Estimate:
    """The same quantity."""
    return Estimate(low=estimate.low, mid=estimate.mid, high=estimate.high)


def around(mid: float, range_fraction: float) -> Estimate:
    """A quantity whose range reaches as far down as up in proportion."""
    return shown(core.Estimate.around(mid, range_fraction))
