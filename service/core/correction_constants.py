"""How much of a prediction's error belongs to what, and how far measurements scatter by themselves."""

from collections.abc import Mapping
from math import log1p
from typing import Final, Literal, TypeAlias

Level: TypeAlias = Literal[
    "backend", "quant", "model", "card", "card-quant", "card-model", "setup", "configuration", "build"
]  # fmt: skip
Quantity: TypeAlias = Literal["decode", "batch", "prefill"]

SHARES: Final[Mapping[Level, float]] = {
    "backend": 0.02, "quant": 0.03, "model": 0.06, "card": 0.32, "card-quant": 0.32, "card-model": 0.05,
    "setup": 0.06, "configuration": 0.10, "build": 0.04,
}  # fmt: skip
"""Shares of the variance of log(measured / predicted), the most general level first; they add up to 1.

setup: model, cards and flags; configuration: with the depth and the streams as well.

Source: maximum likelihood over public figures of ROCm, Vulkan, Metal and SYCL, predicted by constants that were fitted
without their cards (the levels: service/planning/measurements/standing.py): decode (225 figures) card 0.27, card-quant
0.53, setup to build 0.15; prefill (214) card 0.40, model 0.14, card-quant 0.13, setup to build 0.32; rounded between
both. What belongs to a set-up, its depth or its build is hard to tell apart from noise.
"""

CALIBRATED_SHARES: Final[Mapping[Level, float]] = {
    "backend": 0.02, "quant": 0.05, "model": 0.08, "card": 0.02, "card-quant": 0.22, "card-model": 0.12,
    "setup": 0.35, "configuration": 0.10, "build": 0.04,
}  # fmt: skip
"""The same where the constants of a card's generation were fitted to many cards: little is left to learn of the card.

Source: as above with the constants of this version: CUDA decode (365 figures) setup 0.49, card-model 0.22, card-quant
0.18; CUDA prefill (352) configuration 0.47, setup 0.31, model 0.22; decode elsewhere (225) card-quant 0.68, build 0.24.
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
