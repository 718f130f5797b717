"""How much of a prediction's error belongs to what, and how far measurements scatter by themselves."""

from collections.abc import Mapping
from math import log1p
from typing import Final, Literal, TypeAlias

Level: TypeAlias = Literal[
    "backend", "quant", "model", "card", "card-quant", "card-model", "setup", "configuration", "build"
]  # fmt: skip
Quantity: TypeAlias = Literal["decode", "batch", "prefill"]

SHARES: Final[Mapping[Level, float]] = {
    "backend": 0.04, "quant": 0.24, "model": 0.05, "card": 0.24, "card-quant": 0.11, "card-model": 0.04,
    "setup": 0.14, "configuration": 0.09, "build": 0.05,
}  # fmt: skip
"""Shares of the variance of log(measured / predicted), the most general level first; they add up to 1.

setup: model, cards and flags; configuration: with the depth and the streams as well.

Source: maximum likelihood over public decode measurements (the levels: service/planning/measurements/standing.py),
rounded between ROCm (65 figures: card 0.58, setup to build 0.33), Metal (64: card-quant 0.46, setup to build 0.42),
SYCL (40: quant 0.44, backend 0.22, model 0.15, card 0.11) and Vulkan (59: quant 0.64, setup 0.13, backend 0.11).
"""

CALIBRATED_SHARES: Final[Mapping[Level, float]] = {
    "backend": 0.03, "quant": 0.05, "model": 0.17, "card": 0.05, "card-quant": 0.04, "card-model": 0.05,
    "setup": 0.52, "configuration": 0.05, "build": 0.04,
}  # fmt: skip
"""The same where the constants of a card's generation were fitted to many cards: little is left to learn of the card.

Source: as above, 365 decode figures of CUDA cards: setup 0.62, model 0.21, quant 0.05, backend 0.05, the rest 0.08.
"""

SURPRISING_DEVIATIONS: Final = 2.5
"""Beyond so many standard deviations an error is not one of the usual kind: one in eighty would be."""
SURPRISING_LEVELS: Final[frozenset[Level]] = frozenset({"card-quant", "setup"})
"""Where such errors belong: missing kernels for a type of weights on a backend, and one set-up alone."""

_MEDIAN_IN_DEVIATIONS: Final = 0.6745
"""Half of all draws from a normal distribution lie within this many standard deviations of its mean."""

REPEATED: Final[Mapping[Quantity, float]] = {"decode": 0.004, "batch": 0.004, "prefill": 0.028}
OTHER_BUILD: Final[Mapping[Quantity, float]] = {"decode": 0.028, "batch": 0.028, "prefill": 0.074}
OTHER_SOURCE: Final[Mapping[Quantity, float]] = {"decode": 0.107, "batch": 0.107, "prefill": 0.249}
"""Median differences of two measurements of one configuration: by the same source with the same build, with another
build or on another day, and by different sources. Source: noise floor of the speed study (3,754 public measurements).
"""


def deviation(median_difference: float) -> float:
    """Standard deviation of the logarithm of one measurement among those that differ by this median."""
    return log1p(median_difference) / _MEDIAN_IN_DEVIATIONS
